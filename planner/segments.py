"""What each phase reserves: segments its instants need, what is held beside, what was cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from planner.footprint import OUTSIDE, Instant, Term
from planner.formulas.held import Spread, held
from planner.levels import Totals
from planner.numeric import Bounded, Num, maximum, minimum
from planner.phases.phase import PhasePlan

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan


@dataclass(frozen=True)
class Reserved:
    """Segments of one phase: what its instants need, what is held beside, what was cached."""

    needed: Num
    doubt: Num
    held: Term | None
    own: Bounded
    """What its own instants bring about."""
    carried: Bounded

    @cached_property
    def total(self) -> Bounded:
        """What is reserved at its peak."""
        return Bounded(*map(maximum, self.own, self.carried))

    @property
    def inherited(self) -> Bounded:
        """What it finds cached and does not need."""
        return Bounded(*(whole - own for whole, own in zip(self.total, self.own, strict=True)))


def _with(needed: Num, doubt: Num, more: Term | None) -> Bounded:
    if more is None:
        return Bounded(needed, needed, needed + doubt)
    return Bounded(needed + more.low, needed + more.bytes, needed + doubt + more.high)


def above(instant: Instant) -> Num:
    """By how much an instant's own tensors may be more than is counted."""
    return sum(
        term.high - term.bytes
        for term in instant.terms
        if term.high is not None and not term.host and term.category not in OUTSIDE
    )


def doubt(phase: PhasePlan, sums: Sequence[Totals]) -> Num:
    """By how much a phase's instants may need more segments at their upper bounds."""
    doubts = [above(instant) for instant in phase.instants]
    if all(isinstance(one, int) and not one for one in doubts):
        return 0
    most = maximum(*(one.device + more for one, more in zip(sums, doubts, strict=True)))
    return most - maximum(*(one.device for one in sums))


def reserved(
    plan: Plan,
    plans: Sequence[PhasePlan],
    needed: Sequence[Num],
    kept: Sequence[Num],
    sums: Sequence[Sequence[Totals]],
    card: Num,
) -> list[Reserved]:
    """What each phase reserves on a card of so many bytes, from what its own instants need.

    ``kept`` are the weights and the optimizer's tensors among it, ``sums`` the totals of all
    instants, which also say how much more may be needed.
    Models load before anything is held.
    """
    trains = [
        one for phase, each in zip(plans, sums, strict=True) if _trains(phase) for one in each
    ]
    emptied, whole = plan.empty_cache == "between-phases", spread_of(trains)
    beside = [
        held(plan, size, lasting, spread_of(each) if emptied else whole, _room(card, size, each))
        if _trains(phase)
        else None
        for phase, size, lasting, each in zip(plans, needed, kept, sums, strict=True)
    ]
    doubts = [doubt(phase, each) for phase, each in zip(plans, sums, strict=True)]
    own = [_with(*of) for of in zip(needed, doubts, beside, strict=True)]
    before = (cached_before(plans, each, plan.empty_cache) for each in zip(*own, strict=True))
    carried = map(Bounded._make, zip(*before, strict=True))
    return [Reserved(*of) for of in zip(needed, doubts, beside, own, carried, strict=True)]


def _room(card: Num, needed: Num, sums: Sequence[Totals]) -> Num:
    """Bytes of the card beside what a phase needs and what is outside the allocator."""
    return maximum(card - needed - maximum(*(one.outside for one in sums)), 0)


def spread_of(sums: Sequence[Totals]) -> Spread:
    """What instants that share a cache need, by kinds of tensors."""
    kinds = (maximum(*of) for of in zip(*(one.kinds for one in sums), strict=True))
    return Spread(
        apart=sum(kinds),
        together=maximum(*(one.allocated for one in sums)),
        states=minimum(*(one.optimizer for one in sums)),
    )


def _trains(phase: PhasePlan) -> bool:
    return phase.rank == "trainer" and phase.name != "load"


def cached_before(
    plans: Sequence[PhasePlan], reserved: Sequence[Num], empty_cache: str
) -> list[Num]:
    """For each phase, the most any earlier phase of the steady state has reserved.

    The caching allocator keeps what it once got until the cache is emptied: never (the
    high-water mark of the whole step), or between phases (nothing is carried over).
    With ``every-step`` what earlier phases of the same step reserved is carried over.
    Models load before any of it.
    """
    if empty_cache == "between-phases":
        return [0] * len(plans)
    trains = [_trains(phase) for phase in plans]
    if empty_cache == "never":
        mark = maximum(*(r for r, ours in zip(reserved, trains, strict=True) if ours))
        return [mark if ours else 0 for ours in trains]
    carried: list[Num] = []
    mark = 0
    for amount, ours in zip(reserved, trains, strict=True):
        carried.append(mark if ours else 0)
        if ours:
            mark = maximum(mark, amount)
    return carried
