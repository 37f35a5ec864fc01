"""What the caching allocator holds and no tensor uses, beyond what one instant explains.

Blocks that one part of a step has left are not always of use to another: optimizer states that
are made in the first step settle in blocks that its activations left, the optimizer's
temporaries take segments of their own, and gathered weights leave holes among activations.
No sum of sizes gives that; the simulated allocator (docs/allocator.md) replays it. It follows what
comes and goes in a step, and what kinds of tensors need apart from each other. How much of that
is held, replays of a drawn set of plans say, by what decides the order of events: whether weights
are sharded, layers checkpointed, adapters trained. Where sharded weights train, they and their
gradients leave holes, gathered and given back layer by layer; logits, which come last, none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from planner.footprint import Instant, Term
from planner.formulas.formula import Formula
from planner.numeric import Num, total


class Share(NamedTuple):
    """Held bytes, in thousandths of what they follow."""

    low: int
    centre: int
    high: int


Kind = tuple[bool, bool, bool]
"""Whether weights are sharded, layers checkpointed, adapters trained."""

SHARES: Mapping[Kind, Share] = {
    (False, False, False): Share(-69, 4, 78),
    (False, False, True): Share(-64, 17, 70),
    (False, True, False): Share(-6, 34, 189),
    (False, True, True): Share(41, 181, 280),
    (True, False, False): Share(-4, 76, 337),
    (True, False, True): Share(-4, 29, 92),
    (True, True, False): Share(-6, 269, 728),
    (True, True, True): Share(22, 160, 350),
}
"""Least, middle and most of each kind's replays."""

HELD = Formula(
    "held by the allocator, used by no tensor",
    "share * (needed - kept + apart - together) // 1000",
    category="allocator",
    source="replays of dry runs through the simulated allocator (accuracy/measured/held.json)",
    why="What comes and goes (needed - kept; logits only where weights are whole, or do not train) "
    "leaves blocks that do not fit what follows, and "
    "weights, gradients, the optimizer's tensors and all others seldom fit each other's: apart "
    "is what each kind needs at its own worst moment, together what all need at one.",
    ignores="growth over steps of different lengths, which has a bound of its own",
)


def kind_of(plan: Any) -> Kind:
    """What decides how a plan's step leaves holes."""
    return (
        plan.sharding in ("fsdp1", "fsdp2", "zero3"),
        plan.gradient_checkpointing != "none",
        plan.finetuning != "full",
    )


def kept_bytes(plan: Any, instant: Instant, lasting: Num) -> Num:
    """What leaves no holes at an instant: weights, the optimizer's tensors, some plans' logits."""
    sharded, _, adapters = kind_of(plan)
    if adapters or not sharded:
        return lasting
    terms = (term for term in instant.everything if term.category == "logits" and not term.host)
    return lasting + total([term.bytes for term in terms])


def held(plan: Any, needed: Num, kept: Num, apart: Num, together: Num) -> Term:
    """The term of a phase, between the least and the most that replays found.

    Args:
        plan: the plan, or a sweep's grid.
        needed: bytes of segments that a phase's own instants need.
        kept: of them what leaves no holes, by :func:`kept_bytes`.
        apart: what kinds of tensors allocate, each at its own worst moment.
        together: what all of them do at their common worst moment.
    """
    share = SHARES[kind_of(plan)]
    of = {"needed": needed, "kept": kept, "apart": apart, "together": together}
    between = HELD.value(share=share.low, **of), HELD.value(share=share.high, **of)
    return HELD("process", share=share.centre, between=between, **of)
