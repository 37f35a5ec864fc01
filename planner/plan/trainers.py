"""Which trainer a framework has for a method, found in the room of the pair."""

from __future__ import annotations

from functools import cache

from planner import registry
from planner.plan.fields import PlanFields as Plan
from planner.plan.frameworks import framework_named, frameworks
from planner.plan.methods import folder_of, methods
from planner.values.framework import Trainer


@cache
def trainer_of(framework: str, method: str) -> Trainer:
    """The trainer; one that is ``missing`` where the framework has none, or nobody read it."""
    owner = framework_named(framework)
    folder = folder_of(method)
    for room in (
        ("frameworks", framework, f"trainers.{folder}"),
        ("methods", folder, f"on_{framework}"),
    ):
        if registry.has(*room):
            found: Trainer = registry.load(*room).TRAINER
            return found
    if owner.steps_are_ours:
        return Trainer()
    return Trainer(missing=f"{owner.label} has no trainer for {methods()[method].title}.")


def trainer_for(plan: Plan) -> Trainer:
    """The trainer of a plan or grid."""
    return trainer_of(plan.framework, plan.method)


def able(method: str) -> tuple[str, ...]:
    """Frameworks that train a method, in the order of lists."""
    return tuple(name for name in frameworks() if not trainer_of(name, method).missing)


def exporting(method: str) -> tuple[str, ...]:
    """Frameworks that export a method."""
    return tuple(name for name in frameworks() if trainer_of(name, method).export is not None)


def first_with(framework: str, export: object) -> str:
    """The first method, in the order of lists, whose trainer there has this very export."""
    return next(name for name in methods() if trainer_of(framework, name).export == export)


def exported_by(framework: str) -> tuple[str, ...]:
    """Methods that a framework exports."""
    return tuple(name for name in methods() if trainer_of(framework, name).export is not None)
