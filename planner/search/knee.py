"""The knee of the Pareto front of cost and time: how far more dollars still buy speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.cost import cost

if TYPE_CHECKING:
    from planner.search.found import Point, Recommendation

WORTH = 0.7
"""Of the speed that the cheapest plan's dollars buy: what each further dollar an hour has to buy.

On GPUs of one kind that is the parallel efficiency of the added ones, as on the Scaling page.
"""
NOTICED = 1.1
"""A knee that is faster or cheaper than the plan to take by less is not worth saying."""


def knee(front: Sequence[Point]) -> Point:
    """The last point of a front, cheapest first, up to which further dollars are worth it."""
    found, least = front[0], front[0].usd
    for point in front[1:]:
        speed = 1 / point.hours - 1 / found.hours
        dollars = point.usd / point.hours - found.usd / found.hours
        if speed * least >= WORTH * dollars:
            found = point
    return found


def against(point: Point, other: Recommendation) -> str:
    """What a point costs and takes against a plan, in a few words; empty where hardly another."""
    paid = cost(other.footprint)
    if not paid.usd_run or not paid.hours_run:
        return ""
    dearer, faster = point.usd / paid.usd_run, paid.hours_run / point.hours
    if max(faster, 1 / faster) < NOTICED and dearer > 1 / NOTICED:
        return ""
    pace = f"{faster:.1f}× faster" if faster >= 1 else f"{1 / faster:.1f}× slower"
    return f"{dearer - 1:+.1%} cost, {pace}"
