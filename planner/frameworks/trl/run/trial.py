"""TRL's own trainer on real tensors: the steps of a trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from planner.frameworks.trl.run import packages
from planner.frameworks.trl.run.made import fed, scored_in_part, trainer_of
from planner.frameworks.trl.run.offloading import offloading
from planner.frameworks.trl.run.phases import Phases
from planner.frameworks.trl.run.seams import real
from planner.frameworks.trl.run.step import wakes
from planner.launch.huggingface.run.phases import Mark
from planner.launch.huggingface.run.steps import trained
from planner.launch.huggingface.run.watched import Configs, Models
from planner.plan import Plan
from planner.steps.stage import Stage


def train(
    plans: Sequence[Plan],
    configs: Configs,
    stage: Stage,
    mark: Mark,
    begins: Callable[[int], None],
    *,
    several: bool = False,
) -> list[str]:
    """Make the trainer of the first plan, and a step of each.

    Args:
        plans: of every step, which differ in lengths alone.
        configs: config.json fields by role.
        stage: where models are made, with the weights they start from.
        mark: told of phases as they begin and end.
        begins: told the place of a step that begins.
        several: whether all of a sharded plan's processes are there, this one among them.

    Returns:
        What the trainer did otherwise than the estimate supposes, in sentences.
    """
    plan, on_cpu = plans[0], stage.device.type == "cpu"
    model = Models(plan, configs["policy"], stage).made

    def made(folder: Path) -> Any:
        trainer = trainer_of(plan, folder, steps=len(plans), on_cpu=on_cpu)
        fed(trainer, plans, lambda: wakes(plan, stage))
        scored_in_part(trainer)
        return trainer

    asked, away = packages.real(plan, on_cpu=on_cpu), offloading(plan, stage)
    inside = (real(stage.device, model), asked, away)
    return trained(plans, stage, mark, begins, made, inside, Phases, several=several)
