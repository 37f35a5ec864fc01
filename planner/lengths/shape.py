"""What a distribution of lengths is before any cap: counted lengths, or a family.

A family's bins have the same shares whatever its mean: most of them equal, each of the last half of
what is left, so that the longest of many thousands is told well. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, log
from statistics import NormalDist

from planner.lengths.value import MOST_BINS, Bin

MOST_TOKENS = 4_194_304
MOST_COUNT = 10**12
"""Responses of one length; more would say nothing more."""

EVEN = 44
EVEN_SHARE = 0.95
HALVES = MOST_BINS - 1 - EVEN
EDGES = (
    *(EVEN_SHARE * place / EVEN for place in range(EVEN + 1)),
    *(1 - (1 - EVEN_SHARE) / 2**place for place in range(1, HALVES)),
    1.0,
)
"""Shares of the responses below each bin's end, from 0 to 1; room for one bin more is left."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Lengths that were counted: length in tokens and how often, shortest first."""

    counts: tuple[tuple[int, int], ...]

    @property
    def longest(self) -> int:
        """The longest that was counted."""
        return self.counts[-1][0]

    @property
    def bins(self) -> tuple[Bin, ...]:
        """A bin a length."""
        whole = sum(count for _, count in self.counts)
        return tuple(Bin(tokens, count / whole) for tokens, count in self.counts)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Lengths whose logarithm is normal; ``mean`` and ``spread`` (standard deviation) in tokens.

    Both are of responses that nothing cuts. The tail has no end but the cap.
    """

    mean: int
    spread: int

    @property
    def longest(self) -> int:
        """More than any cap."""
        return MOST_TOKENS

    @property
    def bins(self) -> tuple[Bin, ...]:
        """Each bin at the mean of what it stands for, so that the mean is kept."""
        width = log(1 + (self.spread / self.mean) ** 2) ** 0.5
        # The share of all tokens that is in responses shorter than a quantile.
        held = [0.0, *(_NORMAL.cdf(_NORMAL.inv_cdf(edge) - width) for edge in EDGES[1:-1]), 1.0]
        whole: dict[int, float] = {}
        for (low, high), (less, more) in zip(pairwise(EDGES), pairwise(held), strict=True):
            tokens = self.mean * (more - less) / (high - low)
            near = min(max(round(tokens), 1), MOST_TOKENS)
            whole[near] = whole.get(near, 0.0) + high - low
        return tuple(Bin(tokens, share) for tokens, share in sorted(whole.items()))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every length from ``low`` to ``longest`` as often."""

    low: int
    longest: int

    @property
    def bins(self) -> tuple[Bin, ...]:
        """Equal stretches at their middle, and the longest for itself."""
        values = self.longest - self.low + 1
        ends = [self.low + (values - 1) * place // (MOST_BINS - 1) for place in range(MOST_BINS)]
        middles = [
            Bin((start + end - 1) // 2, (end - start) / values) for start, end in pairwise(ends)
        ]
        return (*middles, Bin(self.longest, 1 / values))


Shape = Histogram | Lognormal | Uniform
_NORMAL = NormalDist()


def histogram(counts: Mapping[int, int] | Iterable[tuple[int, int]]) -> Histogram:
    """The histogram of these counts, in lowest terms.

    Raises:
        ValueError: no length, a length or count out of bounds, or more than 64 lengths; as a part
            of a sentence.
    """
    whole: dict[int, int] = {}
    for tokens, count in dict(counts).items() if isinstance(counts, Mapping) else counts:
        if not 1 <= tokens <= MOST_TOKENS:
            raise ValueError(f"has a response of {tokens:,} tokens, not of 1 to {MOST_TOKENS:,}")
        if not 1 <= count <= MOST_COUNT:
            raise ValueError(f"counts {count:,} responses of {tokens:,} tokens")
        whole[tokens] = whole.get(tokens, 0) + count
    if not 1 <= len(whole) <= MOST_BINS:
        raise ValueError(f"has {len(whole)} lengths, not 1 to {MOST_BINS}")
    common = gcd(*whole.values())
    return Histogram(tuple((tokens, count // common) for tokens, count in sorted(whole.items())))


def lognormal(mean: int, spread: int) -> Lognormal:
    """The family of this mean and standard deviation; ``ValueError`` as above."""
    if not 1 <= mean <= MOST_TOKENS:
        raise ValueError(f"has a mean of {mean:,} tokens, not of 1 to {MOST_TOKENS:,}")
    if not 1 <= spread <= 100 * mean:
        raise ValueError(f"has a spread of {spread:,} tokens, not of 1 to 100 times the mean")
    return Lognormal(mean, spread)


def uniform(low: int, high: int) -> Uniform | Histogram:
    """Lengths from ``low`` to ``high``; few of them are a histogram. ``ValueError`` as above."""
    if not 1 <= low <= high <= MOST_TOKENS:
        raise ValueError(f"has lengths from {low:,} to {high:,}, not within 1 to {MOST_TOKENS:,}")
    if high - low < MOST_BINS:
        return histogram({tokens: 1 for tokens in range(low, high + 1)})
    return Uniform(low, high)


def grouped(counts: Mapping[int, int]) -> Histogram:
    """Any number of lengths as at most 64 bins: the longest for itself, the others at their means.

    The longest decides memory, so it stays what it is. ``ValueError`` as of :func:`histogram`.
    """
    if len(counts) <= MOST_BINS:
        return histogram(counts)
    *others, longest = sorted(counts)
    whole = sum(counts[tokens] for tokens in others)
    found: dict[int, list[int]] = {}
    passed, place = 0, 0
    for tokens in others:
        while passed >= EDGES[place + 1] * whole:
            place += 1
        share = found.setdefault(place, [0, 0])
        share[0] += tokens * counts[tokens]
        share[1] += counts[tokens]
        passed += counts[tokens]
    groups = [(round(total / count), count) for total, count in found.values()]
    return histogram([*groups, (longest, counts[longest])])
