"""``python -m planner trials``: the history of trials on this machine, or in its database."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.answer import may_be_json, show, table
from planner.units import read_seconds

if TYPE_CHECKING:
    from planner.trial.history import History, Summary
    from planner.trial.history.store import Added

FILTERS = ("method", "model", "device", "status", "limit")


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    may_be_json(parser, "the list as JSON")
    parser.add_argument("--method", default="", help="only trials of this method")
    parser.add_argument("--model", default="", help="only models whose id contains this")
    parser.add_argument(
        "--device", default="", help="only this device: cpu, cuda, a GPU's key, or part of a name"
    )
    parser.add_argument(
        "--status", default="", help="only trials that ended like this, such as completed"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the newest N")
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--show", metavar="ID", help="print one trial's result as JSON")
    does.add_argument("--delete", metavar="ID", action="append", help="delete a trial for good")
    does.add_argument("--export", type=Path, metavar="FILE", help="write .json or .csv")
    does.add_argument("--import", type=Path, metavar="FILE", dest="import_from")


def run(arguments: argparse.Namespace) -> int:
    """Prints the list, or what was done; 1 when a trial that was named is not there."""
    from planner.trial.history import Filter, History, HistoryError
    from planner.trial.history.exchange import export, import_file
    from planner.trial.history.intake import keep_all

    if arguments.limit is not None and arguments.limit < 1:
        raise ValueError("limit: give a whole number above 0.")
    history = History()
    try:
        keep_all(history, note=_note)
    except HistoryError as error:
        _note(str(error))
    chosen = Filter(**{name: getattr(arguments, name) for name in FILTERS})
    if arguments.show:
        return _show(history, arguments.show)
    if arguments.delete:
        return _delete(history, arguments.delete)
    if arguments.export:
        count = export(history, arguments.export, chosen)
        print(f"Exported {_trials(count)} to {arguments.export}.")
    elif arguments.import_from:
        print("\n".join(_imported(import_file(history, arguments.import_from))))
    else:
        as_text = partial(_listed, place=history.place)
        found = history.list(chosen)
        return show(arguments, found, lambda lines: [*map(dataclasses.asdict, lines)], as_text)
    return 0


def _note(sentence: str) -> None:
    print(f"note: {sentence}", file=sys.stderr)


def _show(history: History, identifier: str) -> int:
    from planner.trial.ask.result import result_json

    result = history.get(identifier)
    if result is None:
        print(f"show: there is no trial {identifier[:64]!r}.", file=sys.stderr)
        return 1
    print(result_json(result))
    return 0


def _delete(history: History, identifiers: list[str]) -> int:
    from planner.trial.ask.process import TRIALS

    missing = 0
    for identifier in identifiers:
        folder = TRIALS.find(identifier)
        if folder is not None and not TRIALS.forget(folder):
            raise ValueError(f"delete: the trial {identifier} is not over yet; stop it first.")
        if history.delete([identifier]) or folder is not None:
            print(f"Deleted {identifier}.")
        else:
            print(f"delete: there is no trial {identifier[:64]!r}.", file=sys.stderr)
            missing += 1
    return 1 if missing else 0


def _imported(done: Added) -> list[str]:
    lines = [f"Imported {_trials(len(done.added))}."]
    if done.skipped:
        lines.append(f"Skipped, since these trials are stored already: {', '.join(done.skipped)}.")
    if done.differing:
        lines.append(
            "Skipped, because different trials with the same ids are stored already: "
            f"{', '.join(done.differing)}."
        )
    return lines


def _listed(lines: Sequence[Summary], place: str) -> str:
    if not lines:
        return f"No such trial is in {place}."
    rows = [
        (
            line.id,
            line.created,
            line.status + (" (censored)" if line.censored else ""),
            line.method,
            line.model,
            line.gpu or line.device_name,
            line.torch_version or "?",
            read_seconds(line.seconds),
        )
        for line in lines
    ]
    header = ("id", "created", "status", "method", "model", "device", "torch", "took")
    return table(header, rows, right=(7,))


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"
