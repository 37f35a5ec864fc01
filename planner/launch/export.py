"""A plan as files that start the run, for every framework that has an exporter.

An exporter is the ``exporter.py`` of a framework's folder, imported when it is asked for. A
field that the framework cannot do at the plan's value is never dropped:
:class:`CannotExpress` names it, says why and what to set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any, Protocol, cast

from planner.frameworks import exported, framework_named
from planner.launch.launch import CannotExpress, Launch, Obstacle
from planner.launch.obstacles import shared_obstacles
from planner.plan import Plan, try_plan
from planner.plan.chosen import followed


class Exporter(Protocol):
    """What an ``exporter.py`` in a framework's folder offers."""

    def obstacles(self, plan: Any) -> tuple[Obstacle, ...]:
        """Every field in the way; empty when the plan can be written."""

    def write(self, plan: Any, link: str) -> Launch:
        """The export of a plan without obstacles, for the framework's newest version."""


def exporter_of(framework: str) -> Exporter:
    """The exporter of a framework.

    Raises:
        ValueError: the framework has none; the message says which have.
    """
    if framework not in exported():
        raise ValueError(
            f"framework {framework!r} has no exporter. Choose {' or '.join(exported())}."
        )
    return cast(Exporter, import_module(f"planner.frameworks.{framework}.exporter"))


def obstacles(plan: Plan, framework: str) -> tuple[Obstacle, ...]:
    """Every field of the plan that this framework cannot do; empty when it can do all.

    Raises:
        ValueError: the framework has no exporter.
    """
    exporter = exporter_of(framework)
    return (*shared_obstacles(plan, framework_named(framework)), *exporter.obstacles(plan))


def export(plan: Plan, framework: str, *, link: str = "") -> Launch:
    """The files that start this plan's run.

    Args:
        plan: A valid plan.
        framework: One of :func:`planner.frameworks.exported`.
        link: The plan's link, put into the files as a comment.

    Raises:
        CannotExpress: naming every field the framework cannot do.
        ValueError: the framework has no exporter, or the link is not one printable line.
    """
    if link and (not link.isprintable() or not link.isascii()):
        raise ValueError("link must be one line of printable ASCII; percent-encode it.")
    found = obstacles(plan, framework)
    if found:
        raise CannotExpress(framework, found)
    return exporter_of(framework).write(plan, link)


def following(plan: Plan, framework: str, chosen: Collection[str]) -> Plan:
    """The plan as this framework runs it: what nobody chose follows, what was chosen stays.

    The caller shows what changed, and estimates again: it is another plan.

    Raises:
        CannotExpress: naming chosen fields, or the method, that are in the way.
    """
    changes: dict[str, Any] = {"framework": framework} if plan.framework != framework else {}
    for _ in range(5):  # a change can uncover the next obstacle; no chain is longer
        if changes:
            candidate, problems = try_plan(followed(plan.model_dump(), chosen, changes))
            if candidate is None:
                blamed = tuple(Obstacle(field=p.field, why=p.message, fix=p.fix) for p in problems)
                raise CannotExpress(framework, blamed)
            plan = candidate
        changes = {
            field: value
            for obstacle in obstacles(plan, framework)
            for field, value in obstacle.changes
            if field not in chosen
        }
        if not changes:
            break
        chosen = {*chosen, *changes}
    return plan


def why_not(plan: Plan, framework: str) -> tuple[str, ...]:
    """One sentence per field in the way; empty when the plan can be exported."""
    return tuple(obstacle.sentence for obstacle in obstacles(plan, framework))


def _with(plan: Plan, changes: Mapping[str, object]) -> dict[str, object]:
    values: dict[str, object] = {**plan.model_dump(), **changes}
    if not str(values["sharding"]).startswith("zero"):
        # Only ZeRO keeps gradients in another dtype than the weights they belong to.
        kept = "fp32" if values["master_dtype"] == "fp32" else values["dtype"]
        values["gradient_dtype"] = kept
    return values


def fitted(plan: Plan, framework: str) -> Plan:
    """The nearest plan this framework can run: every obstacle's own change, applied.

    The caller shows what changed, and estimates again: it is another plan.

    Raises:
        CannotExpress: an obstacle that no change of a field removes, or what else would
            have to change for the obstacles' changes to make a valid plan.
    """
    for _ in range(4):  # a change can uncover the next obstacle; no chain is longer
        found = obstacles(plan, framework)
        if not found:
            return plan
        if not all(obstacle.changes for obstacle in found):
            break
        values = _with(plan, CannotExpress(framework, found).changes)
        candidate, problems = try_plan(values)
        if candidate is None:
            raise CannotExpress(
                framework,
                tuple(Obstacle(field=p.field, why=p.message, fix=p.fix) for p in problems),
            )
        plan = candidate
    raise CannotExpress(framework, obstacles(plan, framework))
