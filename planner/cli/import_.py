"""``python -m planner import FILE…``: scripts, configurations, logs and errors as a plan."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from planner.importer.answer import as_json
from planner.importer.imported import Imported, answered, imported
from planner.importer.logs.measured import Figure
from planner.importer.reading import Entry
from planner.importer.recognition import LARGEST_CHARACTERS
from planner.plan import FIELDS
from planner.plan.query import to_query_string
from planner.problem import PlanError, Problem, meant
from planner.units import read_bytes, read_count, read_listed, read_seconds

NOTHING = 2
"""Exit status where nothing was understood."""
FEW = 12
"""Settings of a list that are printed."""


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="a script, a configuration, a log or an error text; all of one run",
    )
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="a field of the plan that the files leave open, such as gpu=a100-80gb",
    )
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.add_argument(
        "--diff",
        action="store_true",
        help="the files with the smallest change that makes the plan fit, as a diff",
    )
    parser.epilog = f"Exit status: 0 when anything was understood, {NOTHING} otherwise."


def run(arguments: argparse.Namespace) -> int:
    """Prints the plan and what became of each setting."""
    found = imported(_texts(arguments.files), _answers(arguments.set))
    if arguments.diff:
        print(_diff(found), end="")
    elif arguments.json:
        print(json.dumps(as_json(found), indent=2, default=str))
    else:
        print("\n".join(_lines(found)))
    return 0 if found.understood else NOTHING


def _answers(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or name not in FIELDS:
            fix = meant(name, FIELDS, "Give a field of a plan and its value: gpu=a100-80gb.")
            raise PlanError((Problem("--set", f"{one!r} names no field.", fix),))
        found[name] = value
    return found


def _texts(paths: list[Path]) -> dict[str, str]:
    """By the names that a script may call them by; two of one name keep their folders."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            with path.open("rb") as file:
                # A character has at most four bytes, and one more says that there is more.
                data = file.read(4 * LARGEST_CHARACTERS + 1)
        except OSError as error:
            problem = Problem("FILE", f"{path} cannot be read: {error.strerror}.", "Give a file.")
            raise PlanError((problem,)) from None
        name = path.name if path.name not in found else str(path)
        found[name] = data.decode("utf-8", "replace")
    return found


def _diff(found: Imported) -> str:
    from planner.advice.advice import Advice
    from planner.estimate import estimate
    from planner.importer.rewriting import patch, suggested
    from planner.launch.bundle.anew import described_anew
    from planner.launch.export import in_the_way

    if found.plan is None:
        print("note: these make no plan, so nothing changes.", file=sys.stderr)
        return ""
    advice = Advice(estimate(found.plan), refused=in_the_way)
    back = suggested(found, advice.ways[0] if advice.ways else None)
    texts, notes = described_anew(back.texts, found.plan, back.plan)
    for note in (*back.notes, *notes):
        print(f"note: {note}", file=sys.stderr)
    return patch(found, replace(back, texts=texts))


def _lines(found: Imported) -> Iterator[str]:
    reading = found.reading
    if found.trainer:
        yield f"{found.trainer}: {_counts(found)}"
    for note in found.notes:
        yield f"note: {note}"
    for error in found.errors:
        yield f"out of memory ({error.form}, line {error.first_line}): {error.text}"
    for log in found.logs:
        yield from (f"measured ({log.form}): {one.words} {_size(one)}" for one in log.figures)
        yield from (f"note: {note}" for note in log.notes)
    for name, said in (
        ("open", "still open"),
        ("beyond", "moves memory or time, not planned"),
        ("unknown", "not understood"),
    ):
        entries = getattr(reading, name)
        for entry in entries[:FEW]:
            yield f"{said}: {_spoken(entry)}"
        if len(entries) > FEW:
            yield f"{said}: {len(entries) - FEW} more; --json lists them"
    if found.asks:
        needed = " and ".join(f"--set {field}=…" for field in found.asks)
        planned = "today's default is planned" if found.plan else "nothing is planned"
        yield f"not said, so {planned}: {read_listed(found.asks)} ({needed})"
    for problem in found.problems:
        yield f"problem: {problem.sentence}"
    if found.plan is not None:
        from planner.cli.answer import headed

        yield ""
        yield from headed(answered(found))
        yield f"?{to_query_string(found.plan, short=True)}"
    elif not found.understood:
        yield (
            "Nothing here was understood. Give the script that starts the run, or the trainer's "
            "configuration."
        )


def _size(one: Figure) -> str:
    return (read_seconds if one.quantity == "seconds" else read_bytes)(one.value)


def _counts(found: Imported) -> str:
    reading = found.reading
    parts = (
        f"{read_count(len(reading.understood), 'setting')} understood",
        f"{len(reading.from_defaults)} from defaults",
        f"{len(reading.no_effect)} without effect",
        f"{len(reading.open)} open",
        f"{len(reading.unknown)} not understood",
    )
    return ", ".join(parts)


def _spoken(entry: Entry) -> str:
    where = f" ({entry.place.file}, line {entry.place.line})" if entry.place else ""
    rests = ", ".join(one.name for one in entry.opens)
    said = f"{entry.name} = {str(entry.value)[:80]}" if entry.value is not None else entry.name
    because = entry.why or (f"rests on {rests}" if rests else "")
    return f"{said}{f': {because}' if because else ''}{where}"
