"""The frameworks that a plan can name, found in their folders.

Folders are imported when first asked for, since what they say of rules is told in the plan's words.
No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from planner import registry
from planner.values.framework import Framework

NOT_PLANNED = ("OpenRLHF",)
"""Labels of frameworks that are not supported yet."""


@cache
def frameworks() -> Mapping[str, Framework]:
    """Every framework by its name, in the order pages list them."""
    folders = registry.folders("frameworks")
    found: list[Framework] = [registry.load("frameworks", name).FRAMEWORK for name in folders]
    found.sort(key=lambda each: (each.order, each.name))
    return MappingProxyType({each.name: each for each in found})


@cache
def framework_named(name: str) -> Framework:
    """The framework of this name.

    Raises:
        ValueError: naming the field and the frameworks that there are.
    """
    if name not in frameworks():
        raise ValueError(f"framework is {name!r}: {complaint(name)}.")
    return frameworks()[name]


def complaint(name: str) -> str:
    """The error text for an unknown framework name, with the names that exist."""
    choices = f"choose one of {', '.join(frameworks())}"
    known = name.lower() in map(str.lower, NOT_PLANNED)
    return f"it is not planned yet; {choices}" if known else choices


@cache
def exported() -> tuple[str, ...]:
    """Names of the frameworks that have an exporter."""
    return tuple(name for name in frameworks() if registry.has("frameworks", name, "exporter"))


@cache
def own_step(name: str) -> Any:
    """What a framework's folder says of running its own code without data; None where nothing does.

    A module ``own_step.py`` with ``NAME`` (whose code, for people), ``DOCUMENT`` (what is ours in
    place of theirs), ``PACKAGES`` (what it is made of), ``refusal(plan)`` and ``left_out(plan)``
    (phases that are not executed); beside it ``run/step.py``. With ``no_trial(plan)``, a reason
    or none, and ``run/trial.py`` trials run it too.
    """
    found = registry.has("frameworks", name, "own_step")
    return registry.load("frameworks", name, "own_step") if found else None


OWN = next(name for name, each in frameworks().items() if each.steps_are_ours)
"""Whose step :mod:`planner.steps` is: a plan's unless told, and what a dry run runs."""


def ours(name: str) -> bool:
    """Whether a framework's step is this project's own, and not the framework's code."""
    return framework_named(name).steps_are_ours


def code_of(framework: str) -> str:
    """Whose step runs a framework's plans: its own where its folder has one, else ours."""
    return OWN if own_step(framework) is None else framework
