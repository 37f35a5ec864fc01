"""The values that a field of a plan can have, where there is a list of them."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args, get_origin

from planner.frameworks import frameworks


@cache
def choices(field: str) -> tuple[str, ...]:
    """The values a field of choices can have; empty for other fields."""
    from planner.plan.plan import Plan

    if field == "framework":
        return tuple(frameworks())
    annotation = Plan.model_fields[field].annotation
    return get_args(annotation) if get_origin(annotation) is Literal else ()
