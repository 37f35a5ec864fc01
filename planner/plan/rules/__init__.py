"""What cannot be, and what is not modelled yet: each with the field and the fix.

A rule is a condition over a plan (or over a sweep's grid, where fields are arrays) and a sentence.
What its fields alone tell stands in the row of the field that a rule is about, what a method or a
framework is asked for in :mod:`.asking`, their own rules in their folders. :func:`problems_of`
judges one plan; a sweep asks each rule itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from planner.numeric import Num
from planner.plan.facts import fact_problems
from planner.plan.fields import NOT_MODELLED, REFUSED
from planner.plan.fields import PlanFields as Plan
from planner.plan.frameworks import framework_named
from planner.plan.methods import method_of, methods, variations
from planner.plan.rules import asking
from planner.plan.trainers import able, trainer_for
from planner.problem import Problem
from planner.rule import Rule


def rules_of(plan: Plan) -> tuple[Rule, ...]:
    """Every rule that a plan, or a sweep's grid, is held to: its method's and framework's too.

    A framework has nothing to say of a method that it does not train.
    """
    trainer = trainer_for(plan)
    return (
        *NOT_MODELLED,
        *REFUSED,
        *asking.RULES,
        *_of_other_methods(plan.method),
        *method_of(plan).rules,
        *(() if trainer.missing else framework_named(plan.framework).rules),
        *trainer.rules,
    )


@cache
def _of_other_methods(name: str) -> tuple[Rule, ...]:
    """What one method alone has, and this one cannot have."""
    varied = (
        Rule(
            "variation",
            _is("variation", variation),
            f"{other.variations[variation].title} is a variation of {other.title} alone.",
            f"Set variation to none, or method to {other.name}.",
        )
        for variation, other in variations().items()
        if other.name != name
    )
    own = (
        Rule(
            field,
            _differs(field, plain := other.fields.model_fields[field].default),
            f"Only {other.title} has this setting.",
            f"Set {field} to {str(plain).lower()}, or method to {other.name}.",
        )
        for other in methods().values()
        if other.name != name and other.fields
        for field in other.refused_elsewhere
    )
    return (*varied, *own)


def _is(field: str, value: str) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) == value


def _differs(field: str, plain: Any) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) != plain


def untrained(plan: Plan) -> tuple[Problem, ...]:
    """A problem where the framework has no step for the method, or none that was read."""
    missing = trainer_for(plan).missing
    if not missing:
        return ()
    return (Problem("framework", missing, f"Set framework to {' or '.join(able(plan.method))}."),)


def problems_of(plan: Plan) -> tuple[Problem, ...]:
    """Every rule a single plan breaks; empty when it is possible and modelled."""
    found = [*fact_problems(plan), *untrained(plan)]
    for rule in rules_of(plan):
        if rule.broken(plan):
            value = getattr(plan, rule.field)
            found.append(Problem(rule.field, rule.message.format(value=value), rule.fix))
    return tuple(found)
