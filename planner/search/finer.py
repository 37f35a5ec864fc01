"""Values between those of the grid: numbers of GPUs and lengths beside the best that were found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from planner.search.tiers import SIZES


class Finer(NamedTuple):
    """How a size is looked at between the values of its grid."""

    unit: int
    """Every value is a multiple of it; no finer than people type."""
    at_once: int
    """Values of one gap that are judged together."""


FINER = {"gpus": Finer(1, 7), "response_tokens": Finer(128, 3)}
BELOW, ABOVE = "below", "above"
SIDES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("longest", "response_tokens"): (ABOVE,),
    ("fewest-gpus", "gpus"): (BELOW,),
}
"""Where a better value can be, by goal and size; otherwise of GPUs on both sides."""


def sides(goal: str, name: str) -> tuple[str, ...]:
    """On which sides of the best value of a size a goal may find a better one."""
    return SIDES.get((goal, name), (BELOW, ABOVE) if name == "gpus" else ())


STEPS = 45.0
"""Of seconds or dollars (:data:`planner.search.tiers.STEP`): a quarter."""
BEHIND: Mapping[str, float] = {"longest": 0, "fewest-gpus": 0, "largest-batch": 0, "fit": 2}


def behind(goal: str, best: float) -> float:
    """The worst that another machine may be, as the goal counts, and still come to lead.

    Where the goal is a size all machines were tried at the same ones, so only equals may.
    """
    return best + BEHIND.get(goal, STEPS)


def beyond(goal: str, best: float) -> float:
    """The same of a machine on which little was tried: half as much again, of a size twice."""
    if goal in SIZES:
        return best * (2.0 if best > 0 else 0.5)
    return best + 2 * BEHIND.get(goal, STEPS)


def between(
    known: Sequence[int], chosen: Collection[int], finer: Finer, where: Collection[str]
) -> tuple[int, ...]:
    """Multiples of a unit in each gap beside a chosen value, evenly spread.

    Args:
        known: the values that were judged, rising.
        chosen: those of them beside which to look.
        finer: the unit, and how many values of a gap.
        where: on which sides of a chosen value.
    """
    found: set[int] = set()
    for low, high in zip(known, known[1:], strict=False):
        if (ABOVE in where and low in chosen) or (BELOW in where and high in chosen):
            step = finer.unit * max(-(-(high - low) // (finer.unit * (finer.at_once + 1))), 1)
            found.update(range((low // step + 1) * step, high, step))
    return tuple(sorted(found))
