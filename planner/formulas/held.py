"""What the caching allocator holds and no tensor uses, beyond what one instant explains.

Blocks that one part of a step has left are not always of use to another. The optimizer's states are
made in the first step, after its backward, and settle in blocks that its activations left: the next
step's activations find those broken, and take segments of their own. So what each kind of tensor
needs at its own worst moment stands beside the others' instead of in their place: at most as much
as the states, where all weights train. Adapters' states are small; there it is what gathered
weights, logits and activations leave each other. The rest are holes, which follow what comes and
goes in a step.

No sum of sizes says how much of either is held. The simulated allocator (docs/allocator.md)
replays it for a drawn set of plans, by what decides the order of events: whether weights are
sharded, layers checkpointed, adapters trained, and whether segments expand, which mends what
states break.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from planner.formulas.formula import Formula
from planner.numeric import Num, maximum, minimum
from planner.plan import Plan
from planner.term import Term
from planner.values.sharding import sharding_of


class Kind(NamedTuple):
    """What decides how a plan's step leaves holes."""

    sharded: bool
    checkpointed: bool
    adapters: bool
    expandable: bool


class Share(NamedTuple):
    """Thousandths: of what kinds of tensors need apart, and of what leaves holes."""

    apart: int
    low: int
    centre: int
    high: int


SHARES: Mapping[Kind, Share] = {
    Kind(False, False, False, False): Share(100, -107, 4, 188),
    Kind(False, False, False, True): Share(0, 3, 20, 81),
    Kind(False, False, True, False): Share(0, -64, 16, 70),
    Kind(False, False, True, True): Share(0, 6, 24, 72),
    Kind(False, True, False, False): Share(200, -137, 12, 295),
    Kind(False, True, False, True): Share(0, 1, 28, 209),
    Kind(False, True, True, False): Share(450, -340, 15, 171),
    Kind(False, True, True, True): Share(150, 78, 92, 180),
    Kind(True, False, False, False): Share(700, -225, 8, 865),
    Kind(True, False, False, True): Share(550, -213, 20, 404),
    Kind(True, False, True, False): Share(400, -42, 16, 59),
    Kind(True, False, True, True): Share(400, -19, 11, 81),
    Kind(True, True, False, False): Share(950, -387, -1, 527),
    Kind(True, True, False, True): Share(150, -63, 167, 612),
    Kind(True, True, True, False): Share(500, -190, 21, 209),
    Kind(True, True, True, True): Share(0, 90, 174, 387),
}
"""Least, middle and most of each kind's replays, beside the share apart that explains them best."""

HELD = Formula(
    "held by the allocator, used by no tensor",
    "minimum((share_apart * minimum(apart - together, limit) + share * (needed - kept)) // 1000, "
    "room)",
    category="allocator",
    source="replays of dry runs through the simulated allocator (accuracy/measured/held.json)",
    why="Weights, gradients, the optimizer's tensors, buffers, logits and other tensors seldom fit "
    "into each other's blocks. The input apart is the sum of what each kind of tensor needs at its "
    "own maximum, and together is what all kinds need at their common maximum. Optimizer states "
    "break up the cached blocks that they are placed in; this wastes at most the size of the "
    "states. Tensors that come and go within a step leave more holes. When the card is full, the "
    "allocator returns free segments to the driver.",
    ignores="growth over steps of different lengths, which has a bound of its own",
)


def kind_of(plan: Plan) -> Kind:
    """The kind of a plan, or of a sweep's grid."""
    return Kind(
        sharded=sharding_of(plan).gathers,
        checkpointed=plan.gradient_checkpointing != "none",
        adapters=plan.finetuning != "full",
        expandable=bool(plan.expandable_segments),
    )


class Spread(NamedTuple):
    """What the instants that share a cache need, by kinds of tensors."""

    apart: Num
    """Bytes that each kind allocates at its own worst moment."""
    together: Num
    """Bytes that all allocate at their common worst moment."""
    states: Num
    """Of the optimizer's, states: what is there at every moment."""


def held(kind: Kind, needed: Num, kept: Num, spread: Spread, room: Num) -> Term:
    """The term of a phase, between the least that replays found and the most that can be.

    The most is what replays found, or all that kinds of tensors need apart where that is more: an
    A100 was seen to hold 0.88 of it (docs/decisions/0022), and so was the replay of its plan.

    Args:
        kind: of the plan, or of a sweep's grid.
        needed: bytes of segments that a phase's own instants need.
        kept: of them weights and the optimizer's tensors.
        spread: of the instants that share a cache.
        room: bytes of the card beside what is needed. The most may be more than that: which part
            of it can be given back, nobody knows.
    """
    share = SHARES[kind]
    of = {
        "share": share.low,
        "room": room,
        "share_apart": share.apart,
        "apart": spread.apart,
        "together": spread.together,
        "limit": spread.apart if kind.adapters else spread.states,
        "needed": needed,
        "kept": kept,
    }
    low = HELD.of(of)
    high = HELD.of({**of, "share": share.high, "room": spread.apart + needed})
    if not kind.expandable:
        # What no replay of the drawn plans reached, and sizes allow: that nothing is shared.
        high = maximum(high, minimum(spread.apart - spread.together, of["limit"]))
    of["share"] = share.centre
    return HELD.made("process", of, low=low, high=high)
