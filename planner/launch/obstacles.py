"""Collecting what stands in the way of an export, and what does so for every framework."""

from __future__ import annotations

import re
from typing import Any

from planner.frameworks.framework import Framework
from planner.launch.launch import Obstacle

MODEL_ID = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
"""A Hub id, ``owner/name``: the characters the Hub itself allows, and no path."""

TARGETS = re.compile(r"[a-z_]+(-linear)?(,[a-z_]+)*")
"""Names of projections, or ``all-linear``."""


def _spoken(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Obstacles:
    """Obstacles of one plan, in the order they were found."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan
        self.found: list[Obstacle] = []

    def refuse(self, field: str, why: str, fix: str, **changes: object) -> None:
        """Note that this field is in the way."""
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


def shared_obstacles(plan: Any, framework: Framework) -> tuple[Obstacle, ...]:
    """Obstacles that do not depend on the framework: names, versions, parallelism."""
    found = Obstacles(plan)
    for field in ("model", "critic_model", "reward_model"):
        name = getattr(plan, field)
        if not (name or field == "model"):
            continue
        if not MODEL_ID.fullmatch(name):
            found.refuse(
                field,
                f"{name[:80]!r} is not a Hub id.",
                f"Set {field} to owner/name, letters, digits, dots, dashes and underscores.",
            )
    if plan.config:
        found.refuse(
            "config",
            "A pasted config.json has no weights to train.",
            "Set config to nothing and model to the Hub id of the weights.",
        )
    if plan.finetuning != "full" and not TARGETS.fullmatch(plan.lora_targets):
        found.refuse(
            "lora_targets",
            f"{plan.lora_targets[:80]!r} is not a list of projections.",
            "Set lora_targets to all-linear or to names such as q_proj,v_proj.",
            lora_targets="all-linear",
        )
    if plan.framework == framework.name:
        version = framework.versions[0]
        found.only(
            "framework_version", version, why=f"The exporter was checked against {version} only."
        )
    for axis in ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"):
        found.only(axis, 1, why="The exported trainer splits training over data only.")
    found.only("turns", 1, why="The export has one turn; more need tools or an environment.")
    if plan.gpus > plan.gpus_per_node and plan.gpus % plan.gpus_per_node:
        found.refuse(
            "gpus",
            "A launcher starts the same number of processes on every node.",
            "Set gpus to a multiple of gpus_per_node.",
        )
    return tuple(found.found)
