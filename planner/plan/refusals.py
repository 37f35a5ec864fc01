"""Plans that pass every rule and that a formula refuses all the same.

A formula refuses what nobody derived or what a library refuses itself (Gemma 2 with
SDPA, a compiled layer of a family that was never traced). Asking it here, when the plan
is made, means that every plan that exists can be estimated.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from planner.problem import Problem
from planner.quantities import VECTOR_FIELDS

SIZES = frozenset(
    (
        *VECTOR_FIELDS,
        "steps",
        "price_per_gpu_hour",
        "host_ram_per_node",
        "gpu_memory_utilization",
    )
)
"""Fields no formula refuses by: they are sizes, and rules bound them."""


def refusals(plan: Any) -> list[Problem]:
    """What a formula says against a plan that breaks no rule; empty when it agrees."""
    words = tuple(
        (field, getattr(plan, field)) for field in type(plan).model_fields if field not in SIZES
    )
    if words in _agreed():
        return []
    from planner.estimate import phase_plans
    from planner.phases.scene import scene_of
    from planner.plan.facts import facts_of

    try:
        phase_plans(scene_of(plan, facts_of(plan)))
    except ValueError as error:
        return [_problem(str(error), frozenset(type(plan).model_fields))]
    _agreed()[words] = None
    return []


@lru_cache(maxsize=1)
def _agreed() -> dict[tuple[tuple[str, Any], ...], None]:
    return _Recent()


class _Recent(dict[tuple[tuple[str, Any], ...], None]):
    """The last few thousand keys; sweeps and pages ask for the same ones again and again."""

    def __setitem__(self, key: tuple[tuple[str, Any], ...], value: None) -> None:
        """Add a key, dropping the oldest when full."""
        if len(self) >= 4096:
            del self[next(iter(self))]
        super().__setitem__(key, value)


def _problem(sentence: str, fields: frozenset[str]) -> Problem:
    """The problem a formula's sentence is about: the first word in it that is a field.

    Formulas speak of a layer's ``compiled`` and ``precision``; a person set other fields.
    """
    sentence = re.sub(r"\bcompiled (is set|to)\b", r"compile \1", sentence)
    sentence = re.sub(r"\bprecision (is|to)\b", r"dtype \1", sentence)
    named = next((word for word in re.findall(r"\w+", sentence) if word in fields), "model")
    text = sentence.removeprefix(f"{named}: ").rstrip(".")
    complaint, found, fix = text.partition("; ")
    complaint = complaint[0].upper() + complaint[1:]
    return Problem(named, f"{complaint}.", f"{fix[0].upper()}{fix[1:]}." if found else "")
