"""Whether what was scored once was predicted by the model of today.

A scoring stands in docs/accuracy.md as *by the model of today* for as long as it says. Nothing that
was published is read here, and no row is named: predictions of then are compared with today's
plans of the same settings, and counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import NamedTuple

from accuracy.timings import compare, report, serving
from accuracy.timings.planned import Left
from accuracy.timings.rows import rows
from planner.estimate import estimate
from planner.plan import try_plan

NOISE = 1e-6
"""Relative, of another processor's arithmetic."""


class Moved(NamedTuple):
    """Predictions of a scoring that today's model makes otherwise, of how many."""

    moved: int
    of: int

    @property
    def words(self) -> str:
        """What to do about it."""
        return (
            f"{self.moved} of {self.of} recorded predictions are not today's model's: score again "
            "as a whole, its rows unread, or take back what moved them"
        )


def held() -> Moved:
    """Of the half that was kept for judging, as it was last scored."""
    recorded = {(one.id, one.phase): one.predicted for one in report.held()}
    today: dict[tuple[str, str], float] = {}
    for row in (row for row in rows() if row.side == "held"):
        told = compare.how(row)
        plan = None if isinstance(told, Left) else try_plan(told.fields)[0]
        if plan is None or isinstance(told, Left):
            continue
        for phase, seconds in compare.answers(estimate(plan), told, row).items():
            today[row.id, phase] = seconds
    return _moved((seconds, today.get(key)) for key, seconds in recorded.items())


def served() -> Moved:
    """Of the engine's steps that were written beside the serving sample's medians."""
    recorded = json.loads(serving.FILE.read_text("utf-8"))["predictions"]
    today = serving.predictions()
    return _moved((seconds, today.get(point)) for point, seconds in recorded.items())


def _moved(pairs: Iterator[tuple[float, float | None]]) -> Moved:
    same = [now is not None and math.isclose(then, now, rel_tol=NOISE) for then, now in pairs]
    return Moved(same.count(False), len(same))
