"""Terms to totals: requested, allocated, what is outside the allocator, host RAM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from planner.formulas import allocator
from planner.formulas.sharding import UNSHARDED
from planner.numeric import Num, total
from planner.term import OUTSIDE, Bundle, Instant, Joined


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
REQUESTED, ALLOCATED, SLACK, BESIDE, HOST = range(5)
"""Places of the other totals."""
BY_BYTES: dict[str, int] = {**dict.fromkeys(OUTSIDE, BESIDE), "allocator": SLACK}
"""Categories of no tensors: their bytes count as they are."""


class Adder:
    """Adds a plan's terms up, each shared bundle once however many instants hold it."""

    plus: Callable[[Sequence[Num]], Num] = staticmethod(sum)

    def __init__(self, expandable_segments: bool) -> None:
        """``expandable_segments`` is the plan's setting of the allocator."""
        self._expandable = expandable_segments
        # The bundle stays referenced, so its id cannot be given to another one.
        self._known: dict[int, tuple[Bundle, Totals]] = {}

    def totals(self, instant: Instant) -> Totals:
        """What all terms of an instant add up to."""
        shared = cast("tuple[Bundle, ...]", instant.shared)
        found = [self._shared(bundle) for bundle in shared if bundle]
        return self._sum([*found, self._add(instant.terms)] if instant.terms else found)

    def _shared(self, bundle: Bundle) -> Totals:
        known = self._known.get(id(bundle))
        if known is None:
            # What is joined of bundles has theirs to add.
            parts = bundle.parts if type(bundle) is Joined else None
            sums = self._add(bundle) if parts is None else self._sum([*map(self._shared, parts)])
            known = self._known[id(bundle)] = (bundle, sums)
        return known[1]

    def _add(self, terms: Bundle) -> Totals:
        sums, expandable = self._nothing(), self._expandable
        for term in terms:
            category = term.category
            if term.host:
                sums[HOST] += term.bytes
            elif category in BY_BYTES:
                sums[BY_BYTES[category]] += term.bytes
            else:
                held, unused = allocator.held_bytes(term, expandable)
                sums[REQUESTED] += term.bytes
                sums[ALLOCATED] += held
                sums[SLACK] += unused
                kind = "unsharded" if term.name in UNSHARDED else category
                if kind in PLACES:
                    sums[PLACES[kind]] += held
        return tuple.__new__(Totals, sums)

    def _nothing(self) -> list[Any]:
        return [*NOTHING]

    def _sum(self, found: Sequence[Totals]) -> Totals:
        if len(found) < 2:
            return found[0] if found else NOTHING
        return tuple.__new__(Totals, map(self.plus, zip(*found, strict=True)))


class Arrays(list[Num]):
    """Numbers that are added up at the end."""

    __slots__ = ()

    def __iadd__(self, number: Num) -> Arrays:  # type: ignore[misc]
        """With one more of them."""
        self.append(number)
        return self


class MeshAdder(Adder):
    """The same of a sweep's arrays: those of equal shape first (:func:`planner.numeric.total`)."""

    plus = staticmethod(total)

    def _add(self, terms: Bundle) -> Totals:
        return tuple.__new__(Totals, map(total, super()._add(terms)))

    def _nothing(self) -> list[Any]:
        return [Arrays() for _ in NOTHING]
