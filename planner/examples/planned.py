"""Estimates of the documents' plans, kept: a slider asks for the same few again and again."""

from __future__ import annotations

from functools import lru_cache

from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan


@lru_cache(maxsize=512)
def planned(plan: Plan) -> Footprint:
    """The plan's estimate, by no benchmark and with no measured errors."""
    return estimate(plan)
