"""The methods that a plan can have, found in their folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from planner import registry
from planner.plan.fields import PlanFields as Plan
from planner.values.method import Method, Variation


@cache
def _found() -> tuple[tuple[str, Method], ...]:
    """Folder and value of every method, in the order of lists."""
    each = [(name, registry.load("methods", name).METHOD) for name in registry.folders("methods")]
    return tuple(sorted(each, key=lambda pair: (pair[1].order, pair[1].name)))


@cache
def methods() -> Mapping[str, Method]:
    """Every method by its name, in the order of lists."""
    return MappingProxyType({method.name: method for _, method in _found()})


@cache
def aliases() -> Mapping[str, str]:
    """Other spellings that are accepted, and the method each is."""
    return MappingProxyType(
        {
            other: method.name
            for method in methods().values()
            for other in method.spellings
        }
    )


@cache
def variations() -> Mapping[str, Method]:
    """Every variation's name, and the method it is one of."""
    return MappingProxyType(
        {name: method for method in methods().values() for name in method.variations}
    )


def spelt(text: str) -> str:
    """A method's or variation's text in the letters of its name.

    A plus in a query is read as a space; people write ``dr_grpo`` and ``Dr. GRPO``.
    """
    low = text.lower()
    found = (low.strip(), low.replace(" ", "+"), "-".join(re.split(r"[_. ]+", low.strip())))
    known = (methods(), aliases(), variations())
    return next((name for name in found if any(name in each for each in known)), text)


def expanded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Old fields that named a variation as ``method``, with it in ``variation`` instead.

    Where another variation stands there, the name stays what it is: no method.
    """
    name = str(fields.get("method"))
    if name not in variations() or fields.get("variation", name) != name:
        return dict(fields)
    return {**fields, "method": variations()[name].name, "variation": name}


def variation_of(plan: Plan) -> Variation | None:
    """The variation that a plan is of, if any."""
    return method_of(plan).variations.get(plan.variation)


def title_of(plan: Plan) -> str:
    """What people call the plan's method, or its variation."""
    return (variation_of(plan) or method_of(plan)).title


def method_of(plan: Plan) -> Method:
    """The method of a plan, of a sweep's grid, or of anything with the field ``method``."""
    return methods()[plan.method]


@cache
def folder_of(name: str) -> str:
    """The folder of a method, which is its name but for what no module may have in it."""
    return next(folder for folder, method in _found() if method.name == name)


@cache
def part(name: str, module: str, attribute: str) -> Any:
    """Something of a method's folder, loaded when it is asked for: ``memory``'s ``phases``."""
    return getattr(registry.load("methods", folder_of(name), module), attribute)
