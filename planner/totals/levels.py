"""Terms to totals: requested, allocated, what is outside the allocator, host RAM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from planner.formulas import allocator
from planner.formulas.sharding import UNSHARDED
from planner.numeric import Num
from planner.term import OUTSIDE, Bundle, Instant, Term


class Totals(NamedTuple):
    """What the terms of an instant add up to; numbers, or arrays for a sweep."""

    requested: Num
    allocated: Num
    slack: Num
    outside: Num
    host: Num
    parameters: Num
    """Of ``allocated``, weights."""
    gradients: Num
    """Of ``allocated``, gradients."""
    optimizer: Num
    """Of ``allocated``, the optimizer's state and temporaries."""
    buffers: Num
    """Of ``allocated``, buffers of collectives and libraries."""
    logits: Num
    """Of ``allocated``, what the loss makes of the vocabulary."""
    unsharded: Num
    """Of ``allocated``, gradients before their reduction, whose stream's blocks serve no shards."""

    @property
    def peak(self) -> Num:
        """What decides which instant is a phase's peak: bytes in use, ours and the engine's."""
        return self.requested + self.outside

    @property
    def kept(self) -> Num:
        """What stays where it is from step to step, but for the optimizer's temporaries."""
        return self.parameters + self.optimizer

    @property
    def kinds(self) -> tuple[Num, ...]:
        """``allocated`` by kinds whose tensors seldom fit each other's blocks."""
        named = self[-len(KINDS) :]
        return (*named, self.allocated - sum(named))

    @property
    def reserved(self) -> Num:
        """Bytes of segments that the instant needs by itself."""
        return self.allocated + self.slack

    @property
    def device(self) -> Num:
        """What the driver would see if nothing else had been cached."""
        return self.allocated + self.slack + self.outside


NOTHING = Totals(*[0] * len(Totals._fields))

KINDS = ("parameters", "gradients", "optimizer", "buffers", "logits", "unsharded")
"""Categories whose tensors seldom fit each other's blocks; gradients of two kinds."""
PLACES: dict[str, int] = {kind: Totals._fields.index(kind) for kind in KINDS}
BESIDE, HOST = (Totals._fields.index(name) for name in ("outside", "host"))


class Adder:
    """Adds terms up, each shared bundle once however many instants hold it."""

    def __init__(
        self, expandable_segments: bool, add: Callable[[Sequence[Num]], Num] = sum
    ) -> None:
        """For one plan, or with :func:`planner.numeric.total` to ``add`` for a sweep's arrays.

        ``expandable_segments`` is the plan's setting of the allocator.
        """
        self._expandable, self._plus = expandable_segments, add
        # The bundle stays referenced, so its id cannot be given to another one.
        self._known: dict[int, tuple[tuple[Term, ...], Totals]] = {}

    def totals(self, instant: Instant) -> Totals:
        """What all terms of an instant add up to."""
        shared = cast("tuple[Bundle, ...]", instant.shared)
        found = [*map(self._shared, filter(None, shared))]
        return self._sum([*found, self._add(instant.terms)] if instant.terms else found)

    def _shared(self, bundle: tuple[Term, ...]) -> Totals:
        known = self._known.get(id(bundle))
        if known is None:
            # What is joined of bundles has theirs to add.
            parts = getattr(bundle, "parts", None)
            sums = self._add(bundle) if parts is None else self._sum([*map(self._shared, parts)])
            known = self._known[id(bundle)] = (bundle, sums)
        return known[1]

    def _add(self, terms: tuple[Term, ...]) -> Totals:
        # Most terms are in few totals: what is not there need not be added.
        requested: list[Num] = []
        allocated: list[Num] = []
        slack: list[Num] = []
        others: dict[int, list[Num]] = {}
        expandable = self._expandable
        for term in terms:
            size, category = term.bytes, term.category
            if term.host:
                others.setdefault(HOST, []).append(size)
            elif category in OUTSIDE:
                others.setdefault(BESIDE, []).append(size)
            elif category == "allocator":
                slack.append(size)
            else:
                held, unused = allocator.held_bytes(term, expandable)
                requested.append(size)
                allocated.append(held)
                slack.append(unused)
                place = PLACES.get("unsharded" if term.name in UNSHARDED else category)
                if place is not None:
                    others.setdefault(place, []).append(held)
        plus = self._plus
        sums = [plus(requested), plus(allocated), plus(slack), *NOTHING[BESIDE:]]
        for place, sizes in others.items():
            sums[place] = plus(sizes)
        return tuple.__new__(Totals, sums)

    def _sum(self, found: Sequence[Totals]) -> Totals:
        if len(found) < 2:
            return found[0] if found else NOTHING
        return tuple.__new__(Totals, map(self._plus, zip(*found, strict=True)))
