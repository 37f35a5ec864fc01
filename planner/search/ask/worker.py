"""``python -m planner.search.ask.worker``: searches, with a second one of it that helps judge.

With ``--alone`` it is that second one.

Speaks :mod:`planner.search.ask.pipe` on its standard streams. Whatever is said while a search is
on its way gives it up.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from planner.advice.cards import Choice, mended
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.launch.export import in_the_way
from planner.plan import Plan
from planner.plan.facts import holding
from planner.search.answer import search
from planner.search.ask.pipe import Closed, receive, send, waits
from planner.search.found import Found
from planner.search.judging import NOTHING, Arrays, Combinations, Rows, joined, rows_of
from planner.search.staged import Progress
from planner.search.wish import Wish
from planner.speeds import Speeds
from planner.trial.evidence.stated_error import Compared, stated

ALONE = "--alone"
NICE = 5
"""Pages go first: whoever edits a plan meanwhile has three quarters of a core that both want."""
ROOT = Path(__file__).resolve().parents[3]
CHUNK = (16, 400)
"""Least and most combinations that a process judges before it looks up.

Those of one chunk share what they are made of, so each process has one where that is not too long.
"""


class GivenUp(Exception):
    """The person gave up waiting."""


class Two:
    """Judges with a second process beside this one; alone where that has gone."""

    def __init__(self, asked: BinaryIO) -> None:
        """``asked`` is where a word gives the search up."""
        self._asked = asked
        self._helper: subprocess.Popen[bytes] | None = None

    def __call__(
        self, plan: Plan, combinations: Combinations, arrays: Arrays, speeds: Speeds | None
    ) -> Rows:
        """As :func:`planner.search.judging.rows_of`, chunk by chunk in both processes."""
        least, most = CHUNK
        rounds = -(-len(combinations) // (2 * most))
        each = max(-(-len(combinations) // max(2 * rounds, 1)), least)
        chunks = [
            (start, combinations[start : start + each])
            for start in range(0, len(combinations), each)
        ]
        found: dict[int, Rows] = {}
        helper = self.alive() if len(chunks) > 1 else None
        theirs: tuple[int, Combinations] | None = None
        try:
            while chunks or theirs:
                if helper is not None and theirs is None and chunks:
                    theirs = chunks.pop()
                    send(_in(helper), ("judge", plan, theirs[1], arrays, speeds))
                if chunks:
                    start, some = chunks.pop(0)
                    found[start] = _moved(rows_of(plan, some, arrays, speeds), start)
                if theirs is not None and (not chunks or waits(_out(helper))):
                    found[theirs[0]] = _moved(receive(_out(helper)), theirs[0])
                    theirs = None
                if waits(self._asked):
                    raise GivenUp
        except Closed:
            self._end()
            rest = chunks if theirs is None else [*chunks, theirs]
            for start, some in rest:
                found[start] = _moved(rows_of(plan, some, arrays, speeds), start)
        except GivenUp:
            if theirs is not None:
                receive(_out(helper))
            raise
        return joined([found[start] for start in sorted(found)]) if found else NOTHING

    def alive(self) -> subprocess.Popen[bytes]:
        """The second process, started where there is none."""
        if self._helper is None or self._helper.poll() is not None:
            self._helper = started(ALONE)
        return self._helper

    def _end(self) -> None:
        if self._helper is not None:
            ended(self._helper)
        self._helper = None


def started(*more: str) -> subprocess.Popen[bytes]:
    """A worker of one's own; it ends when its standard input does."""
    return subprocess.Popen(
        [sys.executable, "-m", "planner.search.ask.worker", *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        bufsize=0,
    )


def ended(process: subprocess.Popen[bytes]) -> None:
    """End a worker; the one that helps it ends with it."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _in(process: subprocess.Popen[bytes] | None) -> Any:
    return process.stdin if process else None


def _out(process: subprocess.Popen[bytes] | None) -> Any:
    return process.stdout if process else None


def _moved(rows: Rows, start: int) -> Rows:
    return replace(rows, combination=rows.combination + start)


def main() -> None:
    """Answer until the input ends."""
    if ALONE not in sys.argv:
        os.nice(NICE)  # and so is the one that it starts
    asked: BinaryIO = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115
    # What a library prints must not end up between answers.
    answers: BinaryIO = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    judge = Two(asked)
    if ALONE not in sys.argv:
        judge.alive()  # it imports while this one waits to be asked
    works: dict[str, Callable[..., Any]] = {"search": partial(_search, judge), "mend": _mend}
    # Nothing that is judged refers to itself: to look for that takes as long as judging.
    gc.disable()
    try:
        while True:
            kind, *request = receive(asked)
            if kind == "judge":
                send(answers, rows_of(*request))
            elif kind in works:
                send(answers, _answered(asked, answers, partial(works[kind], *request)))
                gc.collect()
            # A word that gave up what was on its way is read here, and asks for nothing.
    except Closed:
        return


def _search(
    judge: Two, plan: Plan, wish: Wish, speeds: Speeds | None, progress: Progress
) -> Found:
    return search(plan, wish, progress, speeds=speeds, judge=judge)


def _mend(
    plan: Plan,
    found: Sequence[Choice],
    speeds: Speeds | None,
    known: Sequence[Compared],
    progress: Progress,
) -> tuple[Choice, ...]:
    def judged(one: Plan) -> Footprint:
        return stated(estimate(one, holding(speeds, one)), known)

    return mended(plan, found, judged, in_the_way, partial(progress, "Making each fit"))


def _answered(
    asked: BinaryIO, answers: BinaryIO, work: Callable[[Progress], Any]
) -> tuple[str, Any]:
    """What the work comes to, or how it ended without a result."""

    def progress(doing: str, share: float) -> None:
        if waits(asked):
            raise GivenUp
        send(answers, ("progress", (doing, share)))

    try:
        return "found", work(progress)
    except GivenUp:
        return "given up", None
    except ValueError as error:
        return "refused", str(error)
    except Closed:
        raise
    except Exception as error:  # who waits must hear of any end
        return "failed", f"The search failed: {type(error).__name__}: {error}."


if __name__ == "__main__":
    main()
