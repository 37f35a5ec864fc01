"""Terms to totals: requested, allocated, what is outside the allocator, host RAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.footprint import OUTSIDE, Instant, Term
from planner.formulas import allocator
from planner.numeric import Num, maximum, total
from planner.phases.phase import PhasePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the terms of an instant add up to; numbers, or arrays for a sweep."""

    requested: Num
    allocated: Num
    slack: Num
    outside: Num
    host: Num

    @property
    def peak(self) -> Num:
        """What decides which instant is a phase's peak: bytes in use, ours and the engine's."""
        return self.requested + self.outside

    @property
    def reserved(self) -> Num:
        """Bytes of segments that the instant needs by itself."""
        return self.allocated + self.slack

    @property
    def device(self) -> Num:
        """What the driver would see if nothing else had been cached."""
        return self.allocated + self.slack + self.outside


class Adder:
    """Adds terms up, each shared bundle once however many instants hold it."""

    def __init__(self, expandable_segments: bool) -> None:
        """``expandable_segments`` is the plan's setting of the allocator."""
        self._expandable = expandable_segments
        # The bundle stays referenced, so its id cannot be given to another one.
        self._known: dict[int, tuple[tuple[Term, ...], Totals]] = {}
        # Weights and optimizer state recur in every phase, as terms of the same sizes.
        self._sizes: dict[tuple[object, ...], tuple[Num, Num]] = {}

    def totals(self, instant: Instant) -> Totals:
        """What all terms of an instant add up to."""
        parts = [*(self._shared(bundle) for bundle in instant.shared), self._add(instant.terms)]
        return Totals(
            requested=total([part.requested for part in parts]),
            allocated=total([part.allocated for part in parts]),
            slack=total([part.slack for part in parts]),
            outside=total([part.outside for part in parts]),
            host=total([part.host for part in parts]),
        )

    def _shared(self, bundle: tuple[Term, ...]) -> Totals:
        if id(bundle) not in self._known:
            self._known[id(bundle)] = (bundle, self._add(bundle))
        return self._known[id(bundle)][1]

    def _held(self, term: Term) -> tuple[Num, Num]:
        if not isinstance(term.bytes, int) or not isinstance(term.tensors, int):
            return allocator.held_bytes(term, self._expandable)
        size = (term.bytes, term.tensors, term.layout)
        if size not in self._sizes:
            self._sizes[size] = allocator.held_bytes(term, self._expandable)
        return self._sizes[size]

    def _add(self, terms: tuple[Term, ...]) -> Totals:
        requested: list[Num] = []
        allocated: list[Num] = []
        slack: list[Num] = []
        outside: list[Num] = []
        host: list[Num] = []
        for term in terms:
            if term.host:
                host.append(term.bytes)
            elif term.category in OUTSIDE:
                outside.append(term.bytes)
            elif term.category == "allocator":
                slack.append(term.bytes)
            else:
                blocks, ends = self._held(term)
                requested.append(term.bytes)
                allocated.append(blocks)
                slack.append(ends)
        return Totals(
            requested=total(requested),
            allocated=total(allocated),
            slack=total(slack),
            outside=total(outside),
            host=total(host),
        )


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
    trains = [phase.rank == "trainer" and phase.name != "load" for phase in plans]
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
