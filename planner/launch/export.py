"""A plan as files that start the run, for every framework that has an exporter.

An exporter is the ``exporter.py`` of a framework's folder, imported when it is asked for. A
field that the framework cannot do at the plan's value is never dropped:
:class:`CannotExpress` names it, says why and what to set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol, cast

from planner import registry
from planner.launch.bundle.bundle import bundled
from planner.launch.bundle.places import SHELL
from planner.launch.launch import ONLINE as ONLINE
from planner.launch.launch import CannotExpress, Launch, Obstacle
from planner.launch.obstacles import shared_obstacles
from planner.plan import FIELDS, Plan, try_plan
from planner.plan.chosen import differences, followed
from planner.plan.frameworks import exported, framework_named
from planner.plan.possible_batches import possible_batches
from planner.plan.trainers import exporting
from planner.values.sharding import SHARDINGS

UNREAD = "The estimate is of Headroom's own step: {}."


class Exporter(Protocol):
    """What an ``exporter.py`` in a framework's folder offers."""

    def obstacles(self, plan: Plan) -> tuple[Obstacle, ...]:
        """Every field in the way; empty when the plan can be written."""

    def write(self, plan: Plan, link: str) -> Launch:
        """The export of a plan without obstacles, for the framework's newest version."""


class WeightedExporter(Exporter, Protocol):
    """An exporter that can also have prompts drawn by density weights."""

    def weighted_obstacles(self, plan: Plan) -> tuple[Obstacle, ...]:
        """Every further field in the way of that."""

    def write_weighted(self, plan: Plan, link: str, weights: str) -> Launch:
        """The same export with weights: ``online``, or the folder of a sampling run."""


def exporter_of(framework: str) -> Exporter:
    """The exporter of a framework.

    Raises:
        ValueError: the framework has none; the message says which have.
    """
    if framework not in exported():
        raise ValueError(
            f"framework {framework!r} has no exporter. Choose {' or '.join(exported())}."
        )
    return cast(Exporter, registry.load("frameworks", framework, "exporter"))


def weighted_exporter_of(framework: str) -> WeightedExporter | None:
    """The exporter of a framework, if prompts can be drawn by density weights there."""
    found = exporter_of(framework)
    return cast(WeightedExporter, found) if hasattr(found, "write_weighted") else None


def weighable(plan: Plan, framework: str) -> bool:
    """Whether this framework's export of the plan's method can draw prompts by density weights."""
    found = weighted_exporter_of(framework)
    return found is not None and all(
        obstacle.field != "method"
        for obstacle in (*found.obstacles(plan), *found.weighted_obstacles(plan))
    )


def obstacles(plan: Plan, framework: str, density_weights: str = "") -> tuple[Obstacle, ...]:
    """Every field of the plan that this framework cannot do; empty when it can do all.

    ``density_weights`` are ``online`` or a sampling run's folder; empty draws prompts alike.

    Raises:
        ValueError: the framework has no exporter.
    """
    exporter = exporter_of(framework)
    found = (*shared_obstacles(plan, framework_named(framework)), *exporter.obstacles(plan))
    return (*found, *_in_the_way_of_weights(plan, framework)) if density_weights else found


def _in_the_way_of_weights(plan: Plan, framework: str) -> tuple[Obstacle, ...]:
    found = weighted_exporter_of(framework)
    if found is not None:
        return found.weighted_obstacles(plan)
    able = [framework_named(name).label for name in exported() if weighted_exporter_of(name)]
    why = f"{framework_named(framework).label}'s export does not draw prompts by density weights."
    return (Obstacle(field="framework", why=why, fix=f"Export it to {' or '.join(able)}."),)


def export(
    plan: Plan, framework: str, *, link: str = "", density_weights: str = "", on: str = SHELL
) -> Launch:
    """The files that start this plan's run.

    Args:
        plan: A valid plan.
        framework: One of :func:`planner.plan.frameworks.exported`.
        link: The plan's link, put into the files as a comment.
        density_weights: ``online`` has the run draw prompts by density weights that it computes
            as it starts; a path is the folder of a sampling run that it reads them from. Empty
            draws all prompts alike.
        on: What it is launched by, one of :data:`planner.launch.bundle.places.PLACES`.

    Raises:
        CannotExpress: naming every field the framework cannot do.
        ValueError: the framework has no exporter, cannot be launched by that, or the link is not
            one printable line.
    """
    if link and (not link.isprintable() or not link.isascii()):
        raise ValueError("link must be one line of printable ASCII; percent-encode it.")
    found = obstacles(plan, framework, density_weights)
    if found:
        raise CannotExpress(framework, found)
    if weighted := density_weights and weighted_exporter_of(framework):
        return bundled(plan, weighted.write_weighted(plan, link, density_weights), link, on)
    launch, unread = exporter_of(framework).write(plan, link), framework_named(framework).unread
    if unread:
        launch = replace(launch, notes=(UNREAD.format(unread), *launch.notes))
    return bundled(plan, launch, link, on)


def following(plan: Plan, framework: str, chosen: Collection[str]) -> Plan:
    """The plan as this framework runs it: what nobody chose follows, what was chosen stays.

    The caller shows what changed, and estimates again: it is another plan.

    Raises:
        CannotExpress: naming chosen fields, or the method, that are in the way.
        ValueError: the framework has no exporter.
    """
    changes: dict[str, Any] = {"framework": framework} if plan.framework != framework else {}
    for _ in range(5):  # a change can uncover the next obstacle; no chain is longer
        if changes:
            candidate, problems = try_plan(followed(plan.model_dump(), chosen, changes))
            if candidate is None:
                blamed = tuple(Obstacle(field=p.field, why=p.message, fix=p.fix) for p in problems)
                raise CannotExpress(framework, blamed)
            plan = candidate
        left = obstacles(plan, framework)
        if not left:
            return plan
        asked = (change for obstacle in left for change in obstacle.changes)
        changes = {field: value for field, value in asked if field not in chosen}
        if not changes:
            break
        chosen = {*chosen, *changes}
    raise CannotExpress(framework, obstacles(plan, framework))


def refused(plan: Plan, chosen: Collection[str]) -> tuple[Obstacle, ...]:
    """What the export to the plan's own framework will refuse.

    Empty where it writes none of the method, unless that framework was chosen.
    """
    if plan.framework not in exported():
        return ()
    none_written = plan.framework not in exporting(plan.method)
    if plan.framework in writing(plan) or (none_written and "framework" in chosen):
        try:
            following(plan, plan.framework, chosen)
        except CannotExpress as error:
            return error.obstacles
    return ()


def not_launched(plan: Plan, chosen: Collection[str]) -> tuple[str, ...]:
    """The same as sentences."""
    return tuple(f"launch refuses {one.sentence}" for one in refused(plan, chosen))


def writing(plan: Plan) -> tuple[str, ...]:
    """Frameworks with a script for a plan's method, whatever else is in the way of it."""
    able = (name for name in exporting(plan.method) if name in exported())
    return tuple(
        name for name in able if all(one.field != "method" for one in obstacles(plan, name))
    )


def scripted(plan: Plan, chosen: Collection[str]) -> str:
    """The framework whose script runs the plan once what nobody chose follows it.

    Its own where that can, or where somebody chose it; else the first that can; else its own.
    """
    own = plan.framework
    if "framework" in chosen or (own in exported() and not obstacles(plan, own)):
        return own
    for name in exporting(plan.method):
        try:
            following(plan, name, chosen)
        except CannotExpress:
            continue
        return name
    return own


def changed_for(plan: Plan, framework: str, chosen: Collection[str]) -> Plan:
    """The nearest plan that this framework runs, as its own: chosen fields change where they must.

    Raises:
        CannotExpress: as :func:`fitted` and :func:`following` do.
    """
    near = fitted(plan, framework)
    kept = {*chosen, *(one.field for one in differences(dict(plan), dict(near)))}
    # Whose plan it is decides which batches divide; what the files need is all that changes then.
    divides = possible_batches({**near.model_dump(), "framework": framework}) or {}
    near = try_plan({**near.model_dump(), **divides})[0] or near
    return following(near, framework, {*kept, *divides})


def in_the_way(plan: Plan, framework: str = "") -> frozenset[str]:
    """Fields that a framework cannot run (default: the plan's own); all, without an exporter."""
    framework = framework or plan.framework
    if framework not in exported():
        return frozenset(FIELDS)
    return frozenset(obstacle.field for obstacle in obstacles(plan, framework))


def why_not(plan: Plan, framework: str) -> tuple[str, ...]:
    """One sentence per field in the way; empty when the plan can be exported."""
    return tuple(obstacle.sentence for obstacle in obstacles(plan, framework))


def _with(plan: Plan, changes: Mapping[str, object]) -> dict[str, object]:
    values: dict[str, object] = {**plan.model_dump(), **changes}
    if not SHARDINGS[str(values["sharding"])].zero:
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
