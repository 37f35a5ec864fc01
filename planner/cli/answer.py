"""How the command line answers: as JSON or as text, with tables, sizes and the error to expect."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from planner.footprint import Footprint

Found = TypeVar("Found")
DOES_NOT_FIT = 3
"""Exit status; 2 is a wrong request."""


def may_be_json(parser: argparse.ArgumentParser, what: str = "the whole answer as JSON") -> None:
    """The option of a command whose answer programs read too."""
    parser.add_argument("--json", action="store_true", help=what)


def may_fail(parser: argparse.ArgumentParser, what: str = "the plan does not fit") -> None:
    """A command that judges a plan says so by its exit status, for scripts that go on if it fits.

    ``--fail`` asked for that before every such command did it; scripts that give it go on working.
    """
    parser.epilog = (
        f"Exit status: 0 when the command answered, 2 when its input was wrong, {DOES_NOT_FIT} "
        f"when {what}."
    )
    parser.add_argument(
        "--exit-zero", action="store_true", help=f"exit with 0 even when {what}"
    )
    parser.add_argument("--fail", action="store_true", help=argparse.SUPPRESS)


def status(arguments: argparse.Namespace, word: str) -> int:
    """The exit status of a verdict or a trial's outcome: 3 when it does not fit, else 0."""
    fits = word not in ("out of memory", "will not fit")
    return 0 if fits or arguments.exit_zero else DOES_NOT_FIT


def show(
    arguments: argparse.Namespace,
    found: Found,
    as_json: Callable[[Found], object],
    as_text: Callable[[Found], str],
) -> int:
    """Prints what was found in the form that was asked for; 0."""
    print(json.dumps(as_json(found), indent=2) if arguments.json else as_text(found))
    return 0


def headed(footprint: Footprint) -> list[str]:
    """What is answered of, what that assumes, the headline, and every other limit and fault."""
    from planner.plan.labels import whole_subject

    verdict = footprint.verdict
    return [
        whole_subject(footprint.plan),
        *(f"{each}." for each in footprint.assumptions),
        verdict.sentence,
        *(f"  {line}" for line in verdict.lines),
    ]


def known(read: Callable[[Found], str], value: Found | None) -> str:
    """A value as a person reads it; a question mark where nobody knows it."""
    return "?" if value is None else read(value)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lines with columns as wide as their widest cell; ``right`` columns are right-aligned."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def own_comparisons(method: str) -> tuple[Any, ...]:
    """Comparisons of stored trials of a method (``Compared`` of the stated error).

    A history that cannot be read is no reason to hold back an answer: a line on stderr says so.
    """
    from planner.trial.ask.folders import HISTORY_SETTING, has_history

    if not has_history():
        return ()
    named = os.environ.get(HISTORY_SETTING, "").strip()
    if not named:
        from planner.trial.evidence.proofs import proven

        found = proven(method)
        if found is not None:
            return found  # without SQLAlchemy, which takes longer to load than an estimate
    from planner.trial.history.comparisons import compared, keep_proofs
    from planner.trial.history.errors import HistoryError

    try:
        if not named:
            keep_proofs()
        return compared(method)
    except HistoryError as error:
        print(f"note: {error}", file=sys.stderr)
        return ()


def error_line(footprint: Footprint) -> str:
    """The error to expect of the peak, in words."""
    error = footprint.error
    known = "" if error.low is None else f"{error.low:+.1%} to {error.high:+.1%}; "
    return f"Error of the peak: {known}{error.source.rstrip('.')}."
