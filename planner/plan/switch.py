"""Another method or framework in a link: what nobody chose follows it, as on the page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from planner.plan import Plan, try_plan
from planner.plan.chosen import Change, chosen_fields, completed, differences, followed
from planner.plan.frameworks import frameworks
from planner.plan.methods import method_of
from planner.problem import Problem, best
from planner.values.framework import Framework

LEADING = frozenset(("method", "framework"))
"""Fields that decide what is usual for most others."""


def _framework_of(plan: Plan) -> Framework:
    return frameworks()[plan.framework]


NAMES = ((method_of, "title"), (_framework_of, "label"))
"""What leads, and its attribute that people call it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """What followed another method or framework that a link names in place of its own.

    ``before`` is the plan without it, ``note`` says each setting, old → new.
    """

    before: Plan
    note: str


def switched(
    values: Mapping[str, Any],
    written: Mapping[str, Any],
    chosen: Collection[str] | None,
    every: Collection[str],
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None, tuple[Problem, ...]]:
    """A copied link in which somebody wrote another framework only, as if chosen on the page.

    What was ``written`` has ``every`` field of its version, and the version of the framework that
    it was written for. What nobody chose follows; the values before it come second, where they are
    others. Where that is no plan they stay.
    """
    new = frameworks().get(str(values.get("framework")))
    version = values.get("framework_version")
    owners = [each for each in frameworks().values() if version in each.versions]
    if new is None or new in owners or not owners or not written.keys() >= set(every):
        return values, None, ()
    before = completed({**written, "framework": owners[0].name})
    kept = chosen_fields(before) if chosen is None else chosen
    after = followed(before, kept, {"framework": new.name})
    plan, problems = try_plan(after)
    return (before, None, problems) if plan is None else (after, before, ())


def switch_of(plan: Plan | None, before: Plan | None) -> Switch | None:
    """What followed, where there are plans on both sides of another method or framework."""
    if plan is None or before is None or plan == before:
        return None
    changes = differences(dict(before), dict(plan))
    named = [getattr(of(plan), words) for of, words in NAMES if of(plan) != of(before)]
    instead = [getattr(of(before), words) for of, words in NAMES if of(plan) != of(before)]
    listed = ", ".join(f"{c.field} {c.before} → {c.after}" for c in changes if _follows(c))
    follow = f"; fields that nobody chose follow ({listed})" if listed else ""
    led = f"The link changes {' and '.join(instead)} to {' and '.join(named)}"
    return Switch(before=before, note=f"{led}{follow}.") if named else None


def _follows(change: Change) -> bool:
    return change.field not in (*LEADING, "framework_version")  # of another one never news


def best_plan(
    values: Mapping[str, Any], base: Mapping[str, Any]
) -> tuple[Plan | None, list[Problem], Plan | None]:
    """The plan of these values over the base; values that break it are dropped and reported.

    Third, where what nobody chose followed another method or framework: the plan without it.
    """
    if not base or LEADING.isdisjoint(values):
        return *best(values, lambda left: try_plan({**base, **left})), None
    plan, _ = try_plan({**base, **values})
    if plan is not None:
        return plan, [], None
    # What nobody chose in the preset follows another method or framework.
    chosen = chosen_fields(base)
    plan, dropped = best(values, lambda left: try_plan(followed(base, chosen, left)))
    kept = {name: value for name, value in values.items() if name not in LEADING}
    return plan, dropped, try_plan({**base, **kept})[0]
