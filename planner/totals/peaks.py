"""What counts of a phase's instants: that of its peak, and the most of any.

The instants of a phase stand on few bundles that are the same for many of them. All that counts is
a sum at one instant, or the most of such sums, so a peak can be made without what the instants
stand on, and put on it afterwards: a sweep over choices makes each part once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import add
from typing import NamedTuple

import numpy as np

from planner.numeric import Num, maximum, minimum, total
from planner.term import OUTSIDE, Instant, Term
from planner.totals.levels import KINDS, NOTHING, Totals

INSTANT = ("requested", "allocated", "outside", "kept", "below", "above", "hosted", "order")


class Peak(NamedTuple):
    """Of some instants of a phase, in bytes; numbers, or arrays for a sweep."""

    requested: Num
    """At the instant that owns the peak, as the next six."""
    allocated: Num
    outside: Num
    kept: Num
    below: Num
    """By how much what is outside the allocator may be less."""
    above: Num
    hosted: Num
    """By how much what it takes of host RAM may be more."""
    order: Num
    """The number of that instant: of equal ones the first is the peak."""
    device: Num
    """The most of any instant, as what follows: what the driver would see of it alone."""
    doubted: Num
    """The same at the upper bounds of what it makes itself."""
    host: Num
    beside: Num
    """Outside the allocator."""
    together: Num
    """Allocated."""
    parameters: Num
    """Allocated of a kind, as the next six (:attr:`planner.totals.levels.Totals.kinds`)."""
    gradients: Num
    optimizer: Num
    buffers: Num
    logits: Num
    unsharded: Num
    others: Num
    states: Num
    """The least of the optimizer's tensors: what is there at every moment."""

    @property
    def needed(self) -> Num:
        """Bytes of segments that the instants need by themselves."""
        return self.device - self.outside

    @property
    def doubt(self) -> Num:
        """By how much they may need more at their upper bounds."""
        return self.doubted - self.device

    @property
    def kinds(self) -> tuple[Num, ...]:
        """What each kind of tensor needs at its own worst moment."""
        return self[-len(KINDS) - 2 : -1]


Stood = Sequence[Num]
"""What instants stand on: its :class:`Totals`, and its :func:`bounds`."""
NOTHING_STOOD: Stood = (*NOTHING, 0, 0, 0)


def bounds(terms: Sequence[Term]) -> tuple[Num, Num, Num]:
    """By how much those outside the allocator may be less and more, and those in host RAM more."""
    doubtful = [term for term in terms if term.low is not None]
    if not doubtful:
        return 0, 0, 0
    outside = [term for term in doubtful if term.category in OUTSIDE and not term.host]
    return (
        total([term.bytes - term.low for term in outside]),
        total([term.high - term.bytes for term in outside]),
        total([term.high - term.bytes for term in doubtful if term.host]),
    )


def above(instant: Instant) -> Num:
    """By how much an instant's own tensors may be more than is counted."""
    more: Num = 0
    for term in instant.terms:
        if term.high is not None and not term.host and term.category not in OUTSIDE:
            more = more + (term.high - term.bytes)
    return more


def peak_of(
    sums: Sequence[Totals],
    doubts: Sequence[Num],
    outside: Sequence[tuple[Num, Num, Num]],
    orders: Sequence[int],
) -> Peak:
    """The peak of instants, each with its sum, doubt, :func:`bounds` and number."""
    # Of each figure that of every instant; kinds of tensors are the last of them.
    requested, allocated, slack, outer, host, *kinds = zip(*sums, strict=True)
    peaks = [*map(add, requested, outer)]

    def figures(at: int) -> Sequence[Num]:
        one = sums[at]
        return one.requested, one.allocated, one.outside, one.kept, *outside[at], orders[at]

    if np.ndarray in map(type, peaks):
        owner, highest = figures(0), peaks[0]
        for at, peak in enumerate(peaks[1:], 1):
            higher = peak > highest
            owner = [
                new if new is old else np.where(higher, new, old)
                for new, old in zip(figures(at), owner, strict=True)
            ]
            highest = np.maximum(highest, peak)
    else:
        owner = figures(peaks.index(max(peaks)))
    devices = [*map(add, map(add, allocated, slack), outer)]
    doubtful = not all(isinstance(one, int) and not one for one in doubts)
    others = [whole - sum(parts) for whole, *parts in zip(allocated, *kinds, strict=True)]
    doubted = [*map(add, devices, doubts)] if doubtful else []
    each = (devices, host, outer, allocated, *kinds, others)
    # A plan's numbers need no look at what they are, one by one.
    numbers = np.ndarray not in map(type, chain(doubted, *each))
    most, least = (max, min) if numbers else (_most, _least)
    device, *rest = map(most, each)
    states = least(kinds[KINDS.index("optimizer")])
    return Peak._make((*owner, device, most(doubted) if doubted else device, *rest, states))


def _most(sizes: Sequence[Num]) -> Num:
    return maximum(*sizes)


def _least(sizes: Sequence[Num]) -> Num:
    return minimum(*sizes)


def standing_on(peak: Peak, stood: Stood) -> Peak:
    """The peak of the same instants with what they stand on."""
    *totals, below, above, hosted = stood
    sums = Totals(*totals)
    found = (
        peak.requested + sums.requested,
        peak.allocated + sums.allocated,
        peak.outside + sums.outside,
        peak.kept + sums.kept,
        peak.below + below,
        peak.above + above,
        peak.hosted + hosted,
        peak.order,
        peak.device + sums.device,
        peak.doubted + sums.device,
        peak.host + sums.host,
        peak.beside + sums.outside,
        peak.together + sums.allocated,
        *map(add, peak.kinds, sums.kinds),
        peak.states + sums.optimizer,
    )
    return Peak._make(found)


def of_both(one: Peak, other: Peak) -> Peak:
    """The peak of the instants of both."""
    mine, its = one.requested + one.outside, other.requested + other.outside
    better = (its > mine) | ((its == mine) & (other.order < one.order))
    names = Peak._fields[len(INSTANT) : -1]
    return Peak._make(
        [
            *(np.where(better, getattr(other, name), getattr(one, name)) for name in INSTANT),
            *(np.maximum(getattr(one, name), getattr(other, name)) for name in names),
            np.minimum(one.states, other.states),
        ]
    )
