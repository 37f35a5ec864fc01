"""Each phase's seconds as a bar of their causes, with its interval. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from planner.charts.bars import Scale, one_upon_the_other, stacked
from planner.charts.marks import COLORS, INK

CAUSE_COLORS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#A89B2D"),
    COLORS["buffers"],
)
"""Okabe and Ito's again; the last, a grey, is of what is left."""
LEFT = "other causes"
WIDEST = 1.5
"""Of the longest bar, what an interval may widen the axis by: beyond it, its words say more."""
UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


class Cause(NamedTuple):
    """A stretch of a phase's time."""

    phase: str
    cause: str
    seconds: float


class Taken(NamedTuple):
    """What a phase takes: in all, at least and at most (None where nobody knows), and in words."""

    phase: str
    total: float
    least: float | None
    most: float | None
    said: str


def phase_seconds(
    causes: Sequence[Cause],
    taken: Sequence[Taken],
    *,
    ink: str = INK["light"],
    chosen: str = "",
) -> dict[str, Any]:
    """One bar per phase, stacked by cause, and a line from its least to its most.

    Args:
        causes: one per phase and cause.
        taken: one per phase, in their order.
        ink: colour of words and intervals.
        chosen: the phase whose row is marked.
    """
    longest = max(each.total for each in taken)
    size, unit = unit_of(longest)
    rows = [
        {
            "phase": each.phase,
            "said": each.said,
            "over": False,
            "least": None if each.least is None else each.least / size,
            "most": None if each.most is None else each.most / size,
        }
        for each in taken
    ]
    most = max([longest, *(each.most for each in taken if each.most is not None)])
    end = 1.02 * min(most, WIDEST * longest) / size
    scale = Scale(end, f"time in a step, {unit}", unit, ink)
    return stacked(_stretches(causes, size), rows, scale, chosen=chosen)


def unit_of(longest: float) -> tuple[float, str]:
    """Seconds of the unit in which a time of this length is read, and its name."""
    return next((each for each in UNITS if longest >= each[0]), UNITS[-1])


def _stretches(causes: Sequence[Cause], size: float) -> list[dict[str, Any]]:
    """Causes one upon the other, longest first; those beyond the colours are one."""
    sums: dict[str, float] = {}
    for each in causes:
        sums[each.cause] = sums.get(each.cause, 0.0) + each.seconds
    largest = sorted(sums, key=lambda name: -sums[name])
    own = len(CAUSE_COLORS) - 1
    kept = largest[: own if len(largest) > own + 1 else own + 1]
    together: dict[tuple[str, str], float] = {}
    for each in causes:
        of = (each.phase, each.cause if each.cause in kept else LEFT)
        together[of] = together.get(of, 0.0) + each.seconds
    places = {name: place for place, name in enumerate((*kept, LEFT))}
    found = sorted(together.items(), key=lambda row: places[row[0][1]])
    return one_upon_the_other(
        (phase, cause, seconds / size, CAUSE_COLORS[min(places[cause], own)], False)
        for (phase, cause), seconds in found
    )
