"""Collecting what stands in the way of an export, and what does so for every framework."""

from __future__ import annotations

import re

from planner.launch.launch import Obstacle
from planner.plan import Plan, try_plan
from planner.plan.chosen import DEFAULTS
from planner.plan.fields import ROWS
from planner.plan.frameworks import framework_named
from planner.plan.methods import method_of, methods, title_of
from planner.plan.trainers import exported_by, exporting, first_with, trainer_of
from planner.units import read_count
from planner.values.framework import Framework

MODEL_ID = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
"""A Hub id, ``owner/name``: the characters the Hub itself allows, and no path."""

TARGETS = re.compile(r"[a-z_]+(-linear)?(,[a-z_]+)*")
"""Names of projections, or ``all-linear``."""


def _spoken(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Obstacles:
    """Obstacles of one plan, in the order they were found."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.found: list[Obstacle] = []

    def refuse(self, field: str, why: str, fix: str = "", **changes: object) -> None:
        """Note that this field is in the way; without a fix, the changes are it."""
        said = ", ".join(f"{name} to {_spoken(value)}" for name, value in changes.items())
        fix = fix or f"Set {said}."
        self.found.append(Obstacle(field=field, why=why, fix=fix, changes=tuple(changes.items())))

    def only(self, field: str, *allowed: object, why: str, **also: object) -> None:
        """Refuse unless the field has one of these values; the fix sets the first.

        ``also`` are fields that have to change with it.
        """
        if getattr(self.plan, field) in allowed:
            return
        others = "".join(f", {name} to {_spoken(value)}" for name, value in also.items())
        choice = " or ".join(_spoken(value) for value in allowed)
        self.refuse(field, why, f"Set {field} to {choice}{others}.", **{field: allowed[0]}, **also)

    def without_exporter(self, framework: Framework) -> tuple[Obstacle, ...]:
        """The one obstacle where this framework has no exporter for the method, and which have."""
        method = method_of(self.plan)
        trainer = trainer_of(framework.name, method.name)
        usual = f"Headroom writes no {framework.label} script for {method.title}."
        others = [framework_named(name).label for name in exporting(method.name)]
        fix = f"Export it to {' or '.join(others)}." if others else ""
        own = " or ".join(exported_by(framework.name))
        why = trainer.missing or trainer.not_exported or usual
        self.refuse("method", why, fix or f"Choose {own} for {framework.label}.")
        return tuple(self.found)

    def engine_within_node(self) -> None:
        """Refuse an engine whose GPUs are of several nodes."""
        plan = self.plan
        own = plan.rollout_gpus if plan.rollout == "vllm-separate" else plan.gpus
        per_node = min(own, plan.gpus_per_node)
        if per_node % self.plan.rollout_tensor_parallel:
            self.refuse(
                "rollout_tensor_parallel",
                f"vLLM's tensor parallel size {self.plan.rollout_tensor_parallel} does not divide "
                f"the {read_count(per_node, 'GPU')} of a node.",
                "Set rollout_tensor_parallel to a divisor.",
                rollout_tensor_parallel=1,
            )


def shared_obstacles(plan: Plan, framework: Framework) -> tuple[Obstacle, ...]:
    """Obstacles that do not depend on the framework: names, versions, parallelism."""
    found = Obstacles(plan)
    # A script must not depend on how its plan was made: whatever no plan can be is refused again.
    for problem in try_plan(plan.model_dump())[1]:
        found.refuse(problem.field, problem.message, problem.fix)
    for field in ("model", "critic_model", "reward_model"):
        name = getattr(plan, field)
        if field == "model" and plan.config:
            continue  # the scripts ask where its weights are
        if (name or field == "model") and not MODEL_ID.fullmatch(name):
            found.refuse(
                field,
                f"{name[:80]!r} is not a Hub id.",
                f"Set {field} to owner/name; use only letters, digits, dots, dashes, underscores.",
            )
    if plan.finetuning != "full" and not TARGETS.fullmatch(plan.lora_targets):
        found.refuse(
            "lora_targets",
            f"{plan.lora_targets[:80]!r} is not a list of projections.",
            "Set lora_targets to all-linear or to names such as q_proj,v_proj.",
            lora_targets="all-linear",
        )
    trainer = trainer_of(framework.name, plan.method)
    why = f"Headroom does not know how to configure {framework.label} for {title_of(plan)}."
    found.only("variation", "none", *trainer.variations, why=why)
    like = plan.method if trainer.export is None else first_with(framework.name, trainer.export)
    if like != plan.method and plan.method not in trainer.variations:
        why = f"{framework.label}'s command is {methods()[like].title}'s: nothing in it makes it "
        found.refuse("method", f"{why}{title_of(plan)}.", method=like)
    if plan.framework == framework.name:
        version = framework.versions[0]
        found.only(
            "framework_version",
            version,
            why=f"The script was checked against {framework.label} {version} only.",
        )
    for field, row in ROWS.items():
        if row.not_exported:
            found.only(field, DEFAULTS[field], why=row.not_exported)
    return tuple(found.found)
