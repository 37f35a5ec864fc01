"""PLAN on the command line: a link, a query string, a preset's name or a JSON file."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.plan import Plan
from planner.plan.factors import Factors
from planner.plan.link import BENCHMARK, CALIBRATION, Reading, from_query_string, from_values
from planner.problem import PlanError, Problem
from planner.speeds import Speeds

MAX_FILE_BYTES = 4 * 1024 * 1024
"""An answer with every term of every phase is far below; a wrong file is often above."""

HELP = "a link, a query string, a preset such as grpo-7b@1, or a JSON file of fields or an answer"


def takes_plan(parser: argparse.ArgumentParser) -> None:
    """The argument of a command that is about one plan."""
    parser.add_argument("plan", metavar="PLAN", help=HELP)


def read_plan(text: str) -> Reading:
    """Reads PLAN; never raises for what it holds."""
    text = text.strip()
    path = Path(text)
    if _is_file(path):
        return _read_file(path)
    if "=" in text:
        return from_query_string(text)
    if "@" in text and "/" not in text:
        return from_values({"preset": text})
    return _refused(f"{text[:80]!r} is no link, no preset and no file.", f"Give {HELP}.")


@dataclass(frozen=True, slots=True)
class Asked:
    """What PLAN holds: the plan, and what travels beside it."""

    plan: Plan
    chosen: frozenset[str]
    calibration: Factors | None
    benchmark: Speeds | None


def require_plan(text: str) -> Plan:
    """The plan of PLAN; notes go to stderr, and they name what is not used here.

    Raises:
        PlanError: as :func:`require_asked` does.
    """
    asked = require_asked(text)
    for_estimates(asked, CALIBRATION, BENCHMARK)
    return asked.plan


def for_estimates(asked: Asked, *keys: str) -> None:
    """Says on stderr which of these things beside the plan are there and left out."""
    for key in keys:
        if getattr(asked, key) is not None:
            print(
                f"note: the link's {key} changes estimates only; it is left out here.",
                file=sys.stderr,
            )


def require_asked(text: str) -> Asked:
    """The plan of PLAN and what travels beside it; notes go to stderr.

    Raises:
        PlanError: with every problem found, however small: a script should not go on
            with a plan that is not the one it asked for.
    """
    reading = read_plan(text)
    if reading.problems or reading.plan is None:
        raise PlanError(reading.problems)
    for note in reading.notes:
        print(f"note: {note}", file=sys.stderr)
    return Asked(reading.plan, reading.chosen, reading.calibration, reading.benchmark)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a link can be too long for a path, or hold a NUL
        return False


def _read_file(path: Path) -> Reading:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return _refused(f"{path} is larger than any plan.", "Give the JSON of a plan.")
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return _refused(f"{path} cannot be read as JSON: {error}.", "Give the JSON of a plan.")
    if not isinstance(content, dict):
        return _refused(f"{path} holds no JSON object.", "Give the JSON of a plan.")
    if isinstance(content.get("plan"), dict):
        # An answer of any rung: the plan has the answer's version.
        content = {"v": content.get("v", 1), **content["plan"]}
    return from_values(content)


def _refused(message: str, fix: str) -> Reading:
    return Reading(plan=None, problems=(Problem("plan", message, fix),))
