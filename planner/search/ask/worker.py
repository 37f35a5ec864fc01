"""``python -m planner.search.ask.worker``: searches, with a second one of it that helps judge.

With ``--alone`` it is that second one.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from planner.advice.cards import Choice, mended
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.forks.client import SETTING
from planner.jobs.worker import Told, Worker, serve
from planner.launch.export import in_the_way
from planner.plan import Plan
from planner.plan.facts import holding
from planner.search.answer import search
from planner.search.found import Found
from planner.search.judging import NOTHING, Arrays, Combinations, Rows, joined, rows_of
from planner.search.wish import Wish
from planner.speeds import Speeds
from planner.trial.evidence.stated_error import Compared, stated

ALONE = "--alone"
NICE = 5
"""Pages go first: whoever edits a plan meanwhile has three quarters of a core that both want."""
CHUNK = (16, 400)
"""Least and most combinations that a process judges before it looks up.

Those of one chunk share what they are made of, so each process has one where that is not too long.
"""


class Two:
    """Judges with a second process beside this one; alone where that has gone."""

    def __init__(self) -> None:
        self._helper: Worker | None = None

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
                try:
                    if helper is not None and theirs is None and chunks:
                        theirs = chunks.pop()
                        helper.say((plan, theirs[1], arrays, speeds))
                    if helper is not None and theirs is not None and (not chunks or helper.waits()):
                        found[theirs[0]] = _moved(helper.heard()[1], theirs[0])
                        theirs = None
                        continue
                except (EOFError, OSError):
                    chunks += [theirs] if theirs is not None else []
                    helper = theirs = None
                if chunks:
                    start, some = chunks.pop(0)
                    found[start] = _moved(rows_of(plan, some, arrays, speeds), start)
        finally:
            if helper is not None and theirs is not None:
                helper.end()  # what it is about to say answers nobody's question
        return joined([found[start] for start in sorted(found)]) if found else NOTHING

    def alive(self) -> Worker:
        """The second process, started where there is none."""
        if self._helper is None or not self._helper.alive:
            self._helper = begun(ALONE)
        return self._helper


def begun(*more: str) -> Worker:
    """A worker of one's own: a new Python, which holds what a search needs alone."""
    own = {name: value for name, value in os.environ.items() if name != SETTING}
    return Worker(
        "planner.search.ask.worker", *more, environment=own, what="The search", pickled=True
    )


def _moved(rows: Rows, start: int) -> Rows:
    return replace(rows, combination=rows.combination + start)


def main() -> None:
    """Answer until the input ends."""
    # Nothing that is judged refers to itself: to look for that takes as long as judging.
    gc.disable()
    if ALONE in sys.argv:
        serve(lambda asked, _: rows_of(*asked), "The search failed", pickled=True)
        return
    os.nice(NICE)  # and so is the one that it starts
    judge = Two()
    works: dict[str, Callable[..., Any]] = {"search": partial(_search, judge), "mend": _mend}
    serve(
        lambda asked, tell: works[asked[0]](*asked[1:], tell),
        "The search failed",
        first=judge.alive,  # it imports while this one waits to be asked
        rests=gc.collect,
        pickled=True,
    )


def _search(judge: Two, plan: Plan, wish: Wish, speeds: Speeds | None, tell: Told) -> Found:
    return search(plan, wish, lambda *progress: tell(progress), speeds=speeds, judge=judge)


def _mend(
    plan: Plan,
    found: Sequence[Choice],
    speeds: Speeds | None,
    known: Sequence[Compared],
    tell: Told,
) -> tuple[Choice, ...]:
    def judged(one: Plan) -> Footprint:
        return stated(estimate(one, holding(speeds, one)), known)

    return mended(
        plan, found, judged, in_the_way, lambda share: tell(("Making each fit", share))
    )


if __name__ == "__main__":
    main()
