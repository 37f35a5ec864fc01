"""How long responses are, as a value: at most 64 bins, each a length and the share that has it.

Everything that depends on lengths follows from it: the mean, the share still alive after so many
tokens, the longest of a batch. Lengths may be arrays of a sweep's open mesh; shares then stay
numbers, except where the size of a batch is an array. Imports numpy and :mod:`planner.numeric`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from planner.numeric import Num, maximum, minimum

MOST_BINS = 64


class Bin(NamedTuple):
    """A length in tokens, and the share of the responses that have it."""

    tokens: Num
    share: Num


class Alive(NamedTuple):
    """A stretch of decoding steps, and the share of the responses that are in all of them."""

    from_tokens: Num
    to_tokens: Num
    share_alive: Num


@dataclass(frozen=True)
class Lengths:
    """Lengths of independent responses, shortest first; shares add up to one.

    ``longest`` is the most tokens that a response can have, which may be more than any bin's: a
    family's tail has no end below the cap.
    """

    bins: tuple[Bin, ...]
    longest: Num

    @cached_property
    def mean(self) -> Num:
        """Tokens of a response on average: what packed rows compute."""
        return self._moment(1)

    @cached_property
    def attended(self) -> Num:
        """Tokens of equally long rows with as many pairs of positions: E[L²] / E[L]."""
        return self.bins[0].tokens if len(self.bins) == 1 else self._moment(2) / self.mean

    @cached_property
    def spread(self) -> Num:
        """Standard deviation in tokens."""
        return maximum(self._moment(2) - self.mean**2, 0.0) ** 0.5 if len(self.bins) > 1 else 0.0

    def _moment(self, power: int) -> Num:
        if len(self.bins) == 1:
            return self.bins[0].tokens ** power
        return sum((1.0 * one.tokens) ** power * one.share for one in self.bins)

    @cached_property
    def survival(self) -> tuple[Alive, ...]:
        """From no token to the last, in steps; a stretch beyond the cap is empty.

        Of ``n`` responses ``n * share_alive`` are decoded in a step on average, and the step is
        run at all with the probability ``1 - (1 - share_alive) ** n``.
        """
        left: list[Num] = [self.bins[-1].share]
        for one in self.bins[-2::-1]:
            left.append(left[-1] + one.share)
        ends = [0, *(one.tokens for one in self.bins)]
        stretches = zip(pairwise(ends), [1.0, *left[-2::-1]], strict=True)
        return tuple(Alive(start, end, share) for (start, end), share in stretches)

    def reaching(self, tokens: Num) -> Num:
        """Share of the responses with at least so many tokens."""
        return sum(one.share * (one.tokens >= tokens) for one in self.bins)

    def longest_in(self, count: Num) -> Lengths:
        """How long the longest of ``count`` responses is."""
        if len(self.bins) == 1:
            return self
        below = [1.0 - one.share_alive for one in self.survival[1:]]
        reached = [0.0, *(share**count for share in below), 1.0]
        shares = (high - low for low, high in pairwise(reached))
        bins = zip(self.bins, shares, strict=True)
        return Lengths(tuple(Bin(one.tokens, share) for one, share in bins), self.longest)

    def longest_of(self, count: Num) -> Num:
        """Expected tokens of the longest of ``count``: what each row of a padded batch has."""
        return self.longest_in(count).mean

    def after(self, prompt_tokens: Num) -> Lengths:
        """Whole rows: each response behind a prompt of so many tokens."""
        bins = tuple(Bin(one.tokens + prompt_tokens, one.share) for one in self.bins)
        return Lengths(bins, self.longest + prompt_tokens)

    def most_of(self, count: Num, gpus: Num) -> Num:
        """Expected tokens of the GPU with the most, of ``gpus`` with ``count`` responses each.

        A sum of many lengths is nearly normal; that of few cannot exceed ``count`` longest ones.
        """
        if len(self.bins) == 1:
            return count * self.mean
        above = self.spread * (1.0 * count) ** 0.5 * _highest_of(gpus)
        return minimum(count * self.mean + above, 1.0 * count * self.longest)


def point(tokens: Num) -> Lengths:
    """Every response of one length."""
    return Lengths((Bin(tokens, 1.0),), tokens)


def clipped(bins: tuple[Bin, ...], longest: int, cap: Num) -> Lengths:
    """Lengths that are cut at ``cap``: what would be longer has the cap's length."""
    highest = minimum(longest, cap)
    if isinstance(cap, np.ndarray):
        return Lengths(tuple(Bin(minimum(one.tokens, cap), one.share) for one in bins), highest)
    kept = [one for one in bins if one.tokens < cap]
    if len(kept) < len(bins):
        kept.append(Bin(cap, 1.0 - sum(one.share for one in kept) if kept else 1.0))
    return Lengths(tuple(kept), highest)


def _highest_of(count: Num) -> Num:
    """Expected highest of so many standard normal numbers (Blom 1958)."""
    if isinstance(count, np.ndarray):
        values, places = np.unique(count, return_inverse=True)
        return np.array([_highest_of(int(one)) for one in values])[places].reshape(count.shape)
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25)) if count > 1 else 0.0
