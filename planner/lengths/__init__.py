"""How long responses are: the plan's ``length_distribution`` as a value.

:func:`lengths_of` gives a plan's (or a sweep's grid's) lengths, cut at ``response_tokens``; a plan
that has no distribution has every response at its cap. Imports nothing of a plan.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from planner.lengths.text import from_text
from planner.lengths.value import Alive, Bin, Lengths, clipped, point

__all__ = ["Alive", "Bin", "Lengths", "lengths_of"]


def lengths_of(plan: Any) -> Lengths:
    """Response lengths of a plan or grid; every response at the cap where it has none."""
    text: str = plan.length_distribution
    if not text:
        return point(plan.response_tokens)
    return clipped(*_bins(text), plan.response_tokens)


@lru_cache(maxsize=256)
def _bins(text: str) -> tuple[tuple[Bin, ...], int]:
    shape = from_text(text)
    return shape.bins, shape.longest
