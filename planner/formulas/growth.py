"""What the cache grows to over steps of different lengths, which no step of one length shows.

Blocks that a short step left do not fit a longer one, which takes segments of its own; next time
both are cached. Nothing is given back but when the card is full: then whole free segments go, and
the run goes on. So growth ends no run, and the card bounds it. How fast it comes depends on the
order of lengths: half of the replays of a kind grew by nothing to 0.4 of what comes and goes in a
step, the worst by 0.4 to 1.1; none by more than 0.22 where the cache is emptied between phases or
segments expand. It is an upper bound therefore, with nothing at the centre.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.footprint import Term
from planner.formulas.formula import Formula
from planner.formulas.held import HELD, Kind, kind_of
from planner.numeric import Num, maximum

GROWTH: Mapping[Kind, int] = {
    (False, False, False): 405,
    (False, False, True): 723,
    (False, True, False): 815,
    (False, True, True): 1052,
    (True, False, False): 394,
    (True, False, True): 882,
    (True, True, False): 892,
    (True, True, True): 1037,
}
"""The most of each kind's replays, in thousandths of what held memory follows, all logits in it."""

GROWN = Formula(
    "grown over steps of different lengths",
    "counted * maximum(minimum(most, card - reached), 0)",
    category="allocator",
    source="replays of dry runs through the simulated allocator (accuracy/measured/held.json): ten "
    "steps of 30 to 100 % of the caps, in three drawn orders",
    why="A longer step takes new segments beside those that shorter ones left. The card bounds it: "
    "when it is full the allocator gives back what is free before a request fails.",
    ignores="an engine that wakes beside it, which takes nothing back: empty the cache before",
)


def may_grow(plan: Any) -> bool:
    """Whether steps may differ in length while nothing empties the cache between them.

    Expandable segments grow in place, and serve every length.
    """
    varied = plan.batch_shape != "full"
    return varied and plan.empty_cache == "never" and not plan.expandable_segments


def most_growth(plan: Any, held: Sequence[Term | None], spared: Sequence[Num]) -> Num:
    """The most that the cache may hold more.

    Args:
        plan: the plan, or a sweep's grid.
        held: the held term of each phase of a step; None where nothing is held.
        spared: logits that leave no holes in a step of one length; of another they do not fit.
    """
    pairs = [(term, more) for term, more in zip(held, spared, strict=True) if term is not None]
    if not pairs or not may_grow(plan):
        return 0
    moving = (HELD.value(**{**term.inputs, "share": 1000}) + more for term, more in pairs)
    return GROWTH[kind_of(plan)] * maximum(*moving) // 1000
