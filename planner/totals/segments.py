"""What each phase reserves: segments its instants need, what is held beside, what was cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planner.formulas.held import Kind, Spread, held, kind_of
from planner.numeric import Bounded, Num, maximum, minimum
from planner.plan import Plan
from planner.term import Term
from planner.totals.peaks import Peak
from planner.values.step_phases import StepPhase


class Reserved(NamedTuple):
    """Segments of one phase: what its instants need, what is held beside, what was cached."""

    needed: Num
    doubt: Num
    held: Term | None
    own: Bounded
    """What its own instants bring about."""
    carried: Bounded
    total: Bounded
    """What is reserved at its peak."""

    @property
    def inherited(self) -> Bounded:
        """What it finds cached and does not need."""
        return Bounded(*(whole - own for whole, own in zip(self.total, self.own, strict=True)))


def _with(needed: Num, doubt: Num, more: Term | None) -> Bounded:
    if more is None:
        return Bounded(needed, needed, needed + doubt)
    return Bounded(needed + more.low, needed + more.bytes, needed + doubt + more.high)


def reserved(
    plan: Plan, trains: Sequence[bool], peaks: Sequence[Peak], card: Num
) -> list[Reserved]:
    """What each phase reserves on a card of so many bytes, from what its own instants need.

    ``trains`` says which phases run in the trainer's process once models are loaded: before that
    nothing is held.
    """
    emptied = plan.empty_cache == "between-phases"
    kind = kind_of(plan)
    # A cache that is emptied between phases is shared by one phase's instants alone.
    shared = [] if emptied else [peak for peak, its in zip(peaks, trains, strict=True) if its]
    whole = spread_of(shared) if shared else None
    beside = [
        _held(kind, peak, whole or spread_of([peak]), card) if ours else None
        for peak, ours in zip(peaks, trains, strict=True)
    ]
    needed, doubts = [peak.needed for peak in peaks], [peak.doubt for peak in peaks]
    own = [_with(*of) for of in zip(needed, doubts, beside, strict=True)]
    before = (cached_before(trains, each, plan.empty_cache) for each in zip(*own, strict=True))
    carried = [*map(Bounded._make, zip(*before, strict=True))]
    total = [Bounded(*map(maximum, *of)) for of in zip(own, carried, strict=True)]
    return [*map(Reserved, needed, doubts, beside, own, carried, total)]


def _held(kind: Kind, peak: Peak, spread: Spread, card: Num) -> Term:
    room = maximum(card - peak.needed - peak.beside, 0)
    return held(kind, peak.needed, peak.kept, spread, room)


def spread_of(peaks: Sequence[Peak]) -> Spread:
    """What instants that share a cache need, by kinds of tensors."""
    if len(peaks) == 1:
        [peak] = peaks
        return Spread(apart=sum(peak.kinds), together=peak.together, states=peak.states)
    kinds = (maximum(*of) for of in zip(*(one.kinds for one in peaks), strict=True))
    return Spread(
        apart=sum(kinds),
        together=maximum(*(one.together for one in peaks)),
        states=minimum(*(one.states for one in peaks)),
    )


def in_process(rank: str, phase: StepPhase) -> bool:
    """Whether a phase runs in the trainer's process once models are loaded."""
    return rank == "trainer" and phase.moment.loaded


def cached_before(
    trains: Sequence[bool], reserved: Sequence[Num], empty_cache: str
) -> list[Num]:
    """For each phase, the most any earlier phase of the steady state has reserved.

    The caching allocator keeps what it once got until the cache is emptied: never (the
    high-water mark of the whole step), or between phases (nothing is carried over).
    With ``every-step`` what earlier phases of the same step reserved is carried over.
    Models load before any of it.
    """
    if empty_cache == "between-phases":
        return [0] * len(trains)
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
