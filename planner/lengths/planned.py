"""The lengths of a plan or of a sweep's grid."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from planner.lengths.text import from_text
from planner.lengths.value import Bin, Lengths, clipped, point


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
