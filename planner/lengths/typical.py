"""The shape that is offered where nobody has counted, and a family from what a trainer logs.

Neither is fitted to a time. Standard library only.
"""

from __future__ import annotations

from math import exp, expm1, log
from statistics import NormalDist

from planner.lengths.shape import MOST_TOKENS, Lognormal, lognormal

CUT = {256: 0.98, 1024: 0.14}
"""Cap → share of the responses that it cut, of one model on one set of prompts."""
WHOSE = "Qwen2.5-0.5B-Instruct's responses to DeepMath-103K"
SOURCE = (
    f"huggingface/trl pull request 5759 and issue 5697 (read 2026-11): of {WHOSE} a cap of 256 "
    "tokens cut 97 to 99%, one of 1,024 about 14%; the lognormal through both, scaled to this "
    "plan's cap"
)
_NORMAL = NormalDist()


def typical(cap: int) -> Lognormal:
    """The offered shape under a cap: it cuts about one response in seven."""
    (low, early), (high, late) = CUT.items()
    before, behind = _NORMAL.inv_cdf(1 - early), _NORMAL.inv_cdf(1 - late)
    width = log(high / low) / (behind - before)
    mean = exp(log(high) - behind * width + width**2 / 2) * cap / high
    return _of(mean, width)


def logged(mean: float, cut: float, cap: int) -> Lognormal:
    """The lognormal of which a cap cuts a share, and whose mean is then as logged.

    Trainers log both: ``response_length/mean`` and ``response_length/clip_ratio``, or
    ``completions/mean_length`` and ``completions/clipped_ratio``.

    Raises:
        ValueError: no lognormal has them; as a part of a sentence.
    """
    if not 1 <= cap <= MOST_TOKENS:
        raise ValueError(f"has a cap of {cap:,} tokens, not of 1 to {MOST_TOKENS:,}")
    if not 0 < cut < 1:
        raise ValueError(
            f"has {cut:g} as the share that the cap cuts, not one between 0 and 1; where nothing "
            "is cut, give mean and spread"
        )
    if not cut * cap < mean < cap:
        raise ValueError(
            f"has a mean of {mean:g} tokens, which {cut:.1%} at {cap:,} tokens cannot have"
        )
    low, high = 0.0, 1.0
    while _cut_mean(high, cut, cap) > mean:
        high *= 2
        if high > 64:
            raise ValueError(f"has a mean of {mean:g} tokens, which no lognormal has under its cap")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _cut_mean(middle, cut, cap) > mean else (low, middle)
    return _of(exp(log(cap) - _NORMAL.inv_cdf(1 - cut) * high + high**2 / 2), high)


def _cut_mean(width: float, cut: float, cap: int) -> float:
    """Mean below the cap; it falls as the logarithm's spread grows."""
    place = _NORMAL.inv_cdf(1 - cut)
    whole = exp(log(cap) - place * width + width**2 / 2)
    return whole * _NORMAL.cdf(place - width) + cut * cap


def _of(mean: float, width: float) -> Lognormal:
    return lognormal(max(round(mean), 1), max(round(mean * expm1(width**2) ** 0.5), 1))
