"""Which tensors of a plan can be the one that a message of torch's could not get, likeliest first.

Of each is asked whether a segment bought for it prints as the message says; how far what is
allocated by then is from what was; whether something before it needs more of the card, which would
have failed instead; and whether as much memory was given back before as the message says is in
pieces. Distances are bytes and are added up. Of equal ones those come first that leave whole
segments, then those that buy a segment more likely.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from planner.dryrun.allocator.rounding import block_size, segment_size
from planner.formulas.allocator import LARGE_ROUNDING
from planner.importer.allocations import Allocation
from planner.importer.memory_errors.message import Size
from planner.units import MIB

NEAR = 0.05
"""Share of what is allocated by which an estimate's sum may miss it and still mean the moment."""
SLACK = 64 * MIB
"""Rounding that a sum of terms cannot know, of a small run."""
FINE = LARGE_ROUNDING // 16
"""The widest rounding of a printed number that still tells whole segments from others."""


class Candidate(NamedTuple):
    """A tensor of the plan, and how well it suits."""

    allocation: Allocation
    order: int
    """Of its instant in the step."""
    missed_bytes: int
    """What was allocated, less what is by then; 0 where that prints the same."""
    far_bytes: int
    """All distances together, but for what broken memory explains."""
    short_bytes: int
    """By how much it needs less of the card than something before it."""
    whole: bool
    """Whether what is allocated by then and what is unallocated are whole segments together."""
    named: bool
    """Whether the traceback names its phase."""

    @property
    def place(self) -> tuple[str, str]:
        """Phase and name."""
        return self.allocation.phase, self.allocation.term.name

    @property
    def rank(self) -> tuple[bool, int, bool, int, int, int, int]:
        """What it is sorted by: of equal ones the first moment, and of that the last tensor."""
        far, short = self.far_bytes // LARGE_ROUNDING, self.short_bytes // LARGE_ROUNDING
        likelier = not self.named, far, not self.whole, -self.tenths, short
        return *likelier, self.order, -self.allocation.needs_bytes

    @property
    def tenths(self) -> int:
        """Of a segment that its tensors fill, at most 10: small ones share segments.

        Of ten that fill a tenth each, one buys the segment.
        """
        allocation = self.allocation
        filled = allocation.many * allocation.held_bytes
        return min(round(10 * filled / segment_bytes(allocation.tensor_bytes)), 10)


def segment_bytes(tensor_bytes: int) -> int:
    """What torch asks the driver for, which its message names, with the settings that it has."""
    return segment_size(block_size(max(tensor_bytes, 1)))


def candidates(
    allocations: Sequence[Allocation], sizes: Mapping[str, Size], phases: Iterable[str] = ()
) -> tuple[Candidate, ...]:
    """Every tensor of the size that failed, likeliest first; those near in time before the rest.

    Args:
        allocations: of the plan.
        sizes: of a message, ``asked`` among them; ``allocated``, ``unallocated``, ``total`` and
            ``free`` are used where they are there.
        phases: those that the traceback names.
    """
    asked, allocated = sizes["asked"], sizes.get("allocated")
    unallocated, outside = sizes.get("unallocated"), outside_of(sizes)
    named, found, most, order, before = {*phases}, [], 0, 0, None
    freed, held = 0, 0
    for allocation in allocations:
        moment = allocation.phase, allocation.instant, allocation.first
        order, before = order + (moment != before), moment
        freed += max(held - allocation.before_bytes, 0)
        held = allocation.before_bytes + allocation.many * allocation.held_bytes
        short = max(most - allocation.needs_bytes, 0)
        if not _of_another_engine(allocation, sizes.get("total"), outside):
            most = max(most, allocation.needs_bytes)
        if not asked.holds(segment_bytes(allocation.tensor_bytes)):
            continue
        missed, at = _nearest(allocation, allocated)
        beside = _to(outside, allocation.outside_bytes, allocation.outside_bytes)
        broken = max(unallocated.bytes - allocation.unused_bytes, 0) if unallocated else 0
        far = abs(missed) + abs(beside) + max(short - broken, 0) + max(broken - freed, 0)
        whole = not missed and _whole(at, unallocated)
        named_too = allocation.phase in named
        found.append(Candidate(allocation, order, missed, far, short, whole, named_too))
    return tuple(sorted(found, key=lambda one: (not near(one, allocated), one.rank)))


def _nearest(allocation: Allocation, allocated: Size | None) -> tuple[int, int]:
    """How far the tensor of those together that suits best is from what was allocated.

    And what is allocated by the plan when that one is asked for.
    """
    if allocated is None:
        return 0, allocation.before_bytes
    first = -(-(allocated.low - allocation.before_bytes) // allocation.held_bytes)
    last, least, before = allocation.many - 1, allocation.least_bytes, allocation.before_bytes
    each = [min(max(at, 0), last) * allocation.held_bytes for at in (first, first - 1)]
    missed = [_to(allocated, least + one, before + one) for one in each]
    best = min((0, 1), key=lambda one: abs(missed[one]))
    return missed[best], before + each[best]


def _whole(allocated_bytes: int, unallocated: Size | None) -> bool:
    """Whether both are a whole number of segments, which all are multiples of 2 MiB.

    Says something only where what is unallocated is printed much finer than that, in MiB.
    """
    if unallocated is None or unallocated.high - unallocated.low > FINE:
        return False
    missing = -(allocated_bytes + unallocated.low) % LARGE_ROUNDING
    return missing <= unallocated.high - unallocated.low


def _of_another_engine(allocation: Allocation, total: Size | None, outside: Size | None) -> bool:
    """Whether the plan's engine leaves the trainer no room on the message's card.

    The run's engine took less there, since the run went on.
    """
    if total is None or outside is None or allocation.outside_bytes <= outside.high:
        return False
    return allocation.before_bytes + allocation.outside_bytes > total.high


def near(one: Candidate, allocated: Size | None) -> bool:
    """Whether what is allocated by then is what was allocated, within what a sum can know."""
    return allocated is None or abs(one.missed_bytes) <= NEAR * allocated.bytes + SLACK


def outside_of(sizes: Mapping[str, Size]) -> Size | None:
    """What was in use on the card beside what torch had reserved; None where it is not said."""
    names = ("total", "free", "allocated", "unallocated")
    if any(name not in sizes for name in names):
        return None
    total, *others = (sizes[name] for name in names)
    low = total.low - sum(one.high for one in others)
    return Size(max(low, 0), max(total.high - sum(one.low for one in others), 0))


def _to(printed: Size | None, first: int, last: int) -> int:
    """From a stretch of bytes to the nearest number that prints so; 0 where none is printed."""
    return 0 if printed is None else max(printed.low - last, 0) or min(printed.high - first, 0)
