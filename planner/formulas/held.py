"""What the caching allocator holds and no tensor uses, beyond what one instant explains.

Blocks that one part of a step has left are not always of use to another: optimizer states that
are made in the first step settle in blocks that its activations left, the optimizer's
temporaries take segments of their own, and gathered weights leave holes among activations.
No sum of sizes gives that; the simulated allocator (docs/allocator.md) replays it. Its replays
of a drawn set of plans say how much it is of what comes and goes, by what decides the order of
events: whether weights are sharded, layers checkpointed, adapters trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from planner.footprint import Term
from planner.formulas.formula import Formula
from planner.numeric import Num


class Share(NamedTuple):
    """Held bytes, in thousandths of the bytes that come and go in a step."""

    low: int
    centre: int
    high: int


Kind = tuple[bool, bool, bool]
"""Whether weights are sharded, layers checkpointed, adapters trained."""

SHARES: Mapping[Kind, Share] = {
    (False, False, False): Share(-22, 1, 92),
    (False, False, True): Share(-60, 15, 30),
    (False, True, False): Share(-60, 30, 200),
    (False, True, True): Share(-200, 200, 245),
    (True, False, False): Share(-10, 30, 100),
    (True, False, True): Share(25, 33, 110),
    (True, True, False): Share(20, 250, 700),
    (True, True, True): Share(50, 190, 500),
}
"""The twentieth, the middle and the nineteen twentieths of each kind's replays."""

HELD = Formula(
    "held by the allocator, used by no tensor",
    "share * maximum(needed - kept, 0) // 1000",
    category="allocator",
    source="replays of dry runs through the simulated allocator (accuracy/measured/held.json)",
    why="Blocks that one part of a step leaves do not fit what another part needs.",
    ignores="growth over many steps of different lengths, which the dry run's lengths show",
)


def kind_of(plan: Any) -> Kind:
    """What decides how a plan's step leaves holes."""
    return (
        plan.sharding in ("fsdp2", "zero3"),
        plan.gradient_checkpointing != "none",
        plan.finetuning != "full",
    )


def held(plan: Any, needed: Num, kept: Num) -> Term:
    """The term of a phase, between the least and the most that replays found.

    Args:
        plan: the plan, or a sweep's grid.
        needed: bytes of segments that a phase's own instants need.
        kept: of them weights and optimizer state.
    """
    share = SHARES[kind_of(plan)]
    of = {"needed": needed, "kept": kept}
    between = HELD.value(share=share.low, **of), HELD.value(share=share.high, **of)
    return HELD("process", share=share.centre, between=between, **of)
