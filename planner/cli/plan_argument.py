"""PLAN on the command line: a link, a query string, a preset's name or a JSON file."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from planner import catalog
from planner.catalog import measured, spot
from planner.catalog.hub import model_from_hub
from planner.catalog.measured_setting import read_setting
from planner.comparison import old_and_new
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.factors import Factors
from planner.plan.link import Reading, from_query, from_query_string, from_values
from planner.plan.migrations import FIRST_VERSION, VERSION
from planner.plan.pin import MOST_FILE_BYTES, NAME_CHARACTERS, Pinned, from_file, holds_several
from planner.plan.query import BENCHMARK, CALIBRATION
from planner.problem import PlanError, Problem
from planner.speeds import Speeds

LINE = 99
"""Characters of a note: the names of seventy fields are no help."""

HELP = "a link, a query string, a preset such as grpo-7b@1, or a JSON file of fields or an answer"


def takes_plan(parser: argparse.ArgumentParser) -> None:
    """The arguments of a command that is about one plan."""
    parser.add_argument("plan", metavar="PLAN", help=HELP)
    parser.add_argument(
        "--model",
        default="",
        metavar="ID",
        help="another policy: a model of the catalog, a Hub id, or a config.json",
    )


def read_plan(text: str, model: str = "") -> Reading:
    """Reads PLAN; never raises for what it holds.

    A model that the catalog lacks is asked of the Hub: its config.json only, never weights.
    ``model`` takes the place of the plan's own and may be a file.
    """
    text = text.strip()
    path = Path(text)
    if _is_file(path):
        return _read_file(path, model)
    if "=" in text:
        query = parse_qs(text.partition("#")[0].rpartition("?")[2], keep_blank_values=True)
        given = {key: values[-1] for key, values in query.items()}
        outside = _from_outside(given, model)
        # A link without a version is one of the first; what a person types is of today.
        unnamed = FIRST_VERSION if "?" in text else VERSION
        if isinstance(outside, Reading):
            return outside
        if not outside:
            return from_query_string(text, unnamed=unnamed)
        return from_query({**query, **outside}, unnamed=unnamed)
    if "@" in text and "/" not in text:
        return _with_model({"preset": text}, model)
    return _refused(f"{text[:80]!r} is no link, no preset and no file.", f"Give {HELP}.")


def _with_model(given: dict[str, Any], model: str) -> Reading:
    outside = _from_outside(given, model)
    return outside if isinstance(outside, Reading) else from_values({**given, **outside})


def _from_outside(given: Mapping[str, Any], model: str) -> dict[str, str] | Reading:
    """The fields of a model that replaces the plan's, or that the catalog lacks; else nothing."""
    name = model or given.get("model", "")
    if not model and (not isinstance(name, str) or "/" not in name or given.get("config")):
        return {}
    try:
        if model and _is_file(Path(model)):
            given_model = catalog.parse_config(Path(model).read_bytes())
            return {"config": catalog.planned_config(given_model)}
    except (ValueError, OSError) as error:
        return _refused(str(error), "", "model")
    try:
        catalog.model(name)
    except ValueError as unknown:
        try:
            return {"model": name, "config": catalog.planned_config(model_from_hub(name))}
        except ValueError as error:
            return _refused(str(error).removeprefix("model: "), f"({unknown})", "model")
    return {"model": name, "config": ""} if model else {}


@dataclass(frozen=True, slots=True)
class Asked:
    """What PLAN holds: the plan, and what travels beside it."""

    plan: Plan
    chosen: frozenset[str]
    calibration: Factors | None
    benchmark: Speeds | None


def require_several(texts: Sequence[str]) -> list[tuple[str, Asked]]:
    """Each PLAN with a name of its own where it has one; a file may hold several.

    Raises:
        PlanError: as :func:`require_asked` does, of every one.
    """
    found: list[tuple[str, Asked]] = []
    for text in texts:
        if pinned := _plans_in(Path(text.strip())):
            found += [(one.name, Asked(one.plan, frozenset(), None, None)) for one in pinned]
        else:
            name = "" if "=" in text else Path(text.strip()).stem if _is_file(Path(text)) else text
            found.append((name[:NAME_CHARACTERS], require_asked(text)))
    return found


def _plans_in(path: Path) -> tuple[Pinned, ...]:
    """The plans of a file of several; empty for anything else."""
    if not _is_file(path):
        return ()
    with path.open("rb") as file:
        content = file.read(MOST_FILE_BYTES + 1)
    if not holds_several(content):
        return ()
    pinned, problems = from_file(content)
    if problems:
        raise PlanError(problems)
    return pinned


def require_plan(text: str, model: str = "") -> Plan:
    """The plan of PLAN; notes go to stderr, and they name what is not used here.

    Raises:
        PlanError: as :func:`require_asked` does.
    """
    asked = require_asked(text, model)
    for_estimates(asked, CALIBRATION, BENCHMARK)
    return asked.plan


def for_estimates(asked: Asked, *keys: str) -> None:
    """Says on stderr which of these things beside the plan are there and left out."""
    for key in keys:
        if getattr(asked, key) is not None:
            print(
                f"note: the link's {key} applies to estimates only and is ignored here.",
                file=sys.stderr,
            )


def require_asked(text: str, model: str = "") -> Asked:
    """The plan of PLAN and what travels beside it; notes go to stderr.

    Raises:
        PlanError: with every problem found, however small: a script should not go on
            with a plan that is not the one it asked for.
    """
    lacking: list[str] = []
    with spot.measuring(lambda key, *_: lacking.append(key)):
        reading = read_plan(text, model)
    refused = tuple(one for one in reading.problems if not measured.waits(one.message))
    if lacking and not refused:  # else whatever a measurement says, which takes seconds
        with spot.measuring(_measure):
            reading = read_plan(text, model)
            # What nobody chose follows what was measured, such as eager attention.
            reading = reading if reading.plan else read_plan(text, model)
    if reading.problems or reading.plan is None:
        raise PlanError((lacking and refused) or reading.problems)
    for note in reading.notes:
        if reading.switch is None or note != reading.switch.note:
            print(textwrap.shorten(f"note: {note}", LINE, placeholder=" …"), file=sys.stderr)
    if reading.switch is not None:
        _tell(reading.switch.note)
        tell_effect(reading.switch.before, reading.plan)
    return Asked(reading.plan, reading.chosen, reading.calibration, reading.benchmark)


def tell_effect(before: Plan, after: Plan) -> None:
    """Says on stderr what a change of plans does to memory, time and money."""
    _tell(old_and_new(estimate(before), estimate(after)))


def _tell(note: str) -> None:
    print(f"note: {note.replace('→', '->')}", file=sys.stderr)


def _measure(key: str, config: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """A config that nobody derived: its layers are measured now, and the answer is kept."""
    from planner.background import Refused
    from planner.dryrun.ask.port import Port

    ways = [read_setting(name) for name in names]
    what = "".join(f" with {way.attention} attention, {way.words}" for way in ways)
    print(f"measuring the layers of {config['model_type']}{what} …", file=sys.stderr)
    with closing(Port()) as port:
        try:
            port.measure(key, config, names)
        except Refused as error:
            raise ValueError(f"config: {error}") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a link can be too long for a path, or hold a NUL
        return False


def _read_file(path: Path, model: str) -> Reading:
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            return _refused(f"{path} is too large to be a plan.", "Give the JSON of a plan.")
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return _refused(f"{path} cannot be read as JSON: {error}.", "Give the JSON of a plan.")
    if not isinstance(content, dict):
        return _refused(f"{path} holds no JSON object.", "Give the JSON of a plan.")
    if isinstance(content.get("plan"), dict):
        # An answer of any rung: the plan has the answer's version.
        content = {"v": content.get("v", 1), **content["plan"]}
    return _with_model(content, model)


def _refused(message: str, fix: str, field: str = "plan") -> Reading:
    return Reading(plan=None, problems=(Problem(field, message, fix),))
