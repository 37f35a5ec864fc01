"""Which tensors of a plan can be the one that a message of torch's could not get, likeliest first.

Of each is asked whether a segment bought for it prints as the message says; how far what is
allocated by then is from what was; and whether something before it needs more of the card, which
would have failed instead. Distances are bytes and are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from planner.dryrun.allocator.rounding import block_size, segment_size
from planner.formulas.allocator import LARGE_ROUNDING
from planner.importer.births import Birth
from planner.importer.memory_errors.message import Size
from planner.units import MIB

NEAR = 0.05
"""Share of what is allocated by which an estimate's sum may miss it and still mean the moment."""
SLACK = 64 * MIB
"""Rounding that a sum of terms cannot know, of a small run."""


class Candidate(NamedTuple):
    """A tensor of the plan, and how well it suits."""

    birth: Birth
    order: int
    """Of its instant in the step."""
    missed_bytes: int
    """What was allocated, less what is by then; 0 where that prints the same."""
    far_bytes: int
    """All distances together, but for what broken memory explains."""
    short_bytes: int
    """By how much it needs less of the card than something before it."""
    named: bool
    """Whether the traceback names its phase."""

    @property
    def place(self) -> tuple[str, str]:
        """Phase and name."""
        return self.birth.phase, self.birth.term.name

    @property
    def rank(self) -> tuple[bool, int, int, int, int]:
        """What it is sorted by: of equal ones the first moment, and of that the last tensor."""
        far, short = self.far_bytes // LARGE_ROUNDING, self.short_bytes // LARGE_ROUNDING
        return not self.named, far, short, self.order, -self.birth.needs_bytes


def segment_bytes(tensor_bytes: int) -> int:
    """What torch asks the driver for, which its message names, with the settings that it has."""
    return segment_size(block_size(max(tensor_bytes, 1)))


def candidates(
    births: Sequence[Birth], sizes: Mapping[str, Size], phases: Iterable[str] = ()
) -> tuple[Candidate, ...]:
    """Every tensor of the size that failed, likeliest first; those near in time before the rest.

    Args:
        births: of the plan.
        sizes: of a message, ``asked`` among them; ``allocated``, ``unallocated``, ``total`` and
            ``free`` are used where they are there.
        phases: those that the traceback names.
    """
    asked, allocated = sizes["asked"], sizes.get("allocated")
    unallocated, outside = sizes.get("unallocated"), outside_of(sizes)
    named, found, most, order, before = {*phases}, [], 0, 0, None
    for birth in births:
        moment = birth.phase, birth.instant, birth.first
        order, before = order + (moment != before), moment
        short = max(most - birth.needs_bytes, 0)
        most = max(most, birth.needs_bytes)
        if not asked.holds(segment_bytes(birth.tensor_bytes)):
            continue
        last = birth.before_bytes + (birth.many - 1) * birth.held_bytes
        missed = _to(allocated, birth.least_bytes, last)
        beside = _to(outside, birth.outside_bytes, birth.outside_bytes)
        broken = max(unallocated.bytes - birth.unused_bytes, 0) if unallocated else 0
        far = abs(missed) + abs(beside) + max(short - broken, 0)
        found.append(Candidate(birth, order, missed, far, short, birth.phase in named))
    return tuple(sorted(found, key=lambda one: (not near(one, allocated), one.rank)))


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
