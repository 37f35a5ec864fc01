"""Terms to totals: requested, allocated, what is outside the allocator, host RAM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from planner.formulas import allocator
from planner.formulas.sharding import UNSHARDED
from planner.numeric import Num, total
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
SLACK, BESIDE, HOST = (Totals._fields.index(name) for name in ("slack", "outside", "host"))


class Adder:
    """Adds a plan's terms up, each shared bundle once however many instants hold it."""

    plus: Callable[[Sequence[Num]], Num] = staticmethod(sum)

    def __init__(self, expandable_segments: bool) -> None:
        """``expandable_segments`` is the plan's setting of the allocator."""
        self._expandable = expandable_segments
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

    def _row(self, term: Term) -> tuple[int | None, Num, Num, Num]:
        """Its own total's place and bytes; of tensors also what they request and leave unused."""
        category = term.category
        if term.host:
            return HOST, term.bytes, None, 0
        if category in OUTSIDE:
            return BESIDE, term.bytes, None, 0
        if category == "allocator":
            return SLACK, term.bytes, None, 0
        held, unused = allocator.held_bytes(term, self._expandable)
        place = PLACES.get("unsharded" if term.name in UNSHARDED else category)
        return place, held, term.bytes, unused

    def _add(self, terms: tuple[Term, ...]) -> Totals:
        sums: list[Num] = [*NOTHING]
        for place, held, requested, unused in map(self._row, terms):
            if requested is not None:
                sums[0] += requested
                sums[1] += held
                sums[SLACK] += unused
            if place is not None:
                sums[place] += held
        return tuple.__new__(Totals, sums)

    def _sum(self, found: Sequence[Totals]) -> Totals:
        if len(found) < 2:
            return found[0] if found else NOTHING
        return tuple.__new__(Totals, map(self.plus, zip(*found, strict=True)))


class MeshAdder(Adder):
    """The same of a sweep's arrays: those of equal shape first (:func:`planner.numeric.total`)."""

    plus = staticmethod(total)

    def _add(self, terms: tuple[Term, ...]) -> Totals:
        sums: list[list[Num]] = [[] for _ in NOTHING]
        for place, held, requested, unused in map(self._row, terms):
            if requested is not None:
                sums[0].append(requested)
                sums[1].append(held)
                sums[SLACK].append(unused)
            if place is not None:
                sums[place].append(held)
        return tuple.__new__(Totals, map(total, sums))
