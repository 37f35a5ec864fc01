"""verl's own engines on real tensors: the steps of a trial."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from planner.dryrun.run.execute import filled_in
from planner.dryrun.run.world import silent
from planner.frameworks.verl.run.batches import batch
from planner.frameworks.verl.run.made import Config, made, settings_of
from planner.frameworks.verl.run.seams import real
from planner.frameworks.verl.run.steps import Mark, Steps, quiet
from planner.frameworks.verl.run.told import differences
from planner.plan import Plan
from planner.setup.setup import setup_of
from planner.steps.stage import Stage


def train(
    plans: Sequence[Plan],
    configs: dict[str, Config],
    stage: Stage,
    mark: Mark,
    begins: Callable[[int], None],
    *,
    several: bool = False,
) -> list[str]:
    """Make the engines of the first plan, and a step of each.

    Args:
        plans: of every step, which differ in lengths alone.
        configs: config.json fields by role.
        stage: where models are made, with the weights they start from.
        mark: told of phases as they begin and end.
        begins: told the place of a step that begins.
        several: whether all of the plan's processes are there, this one among them.

    Returns:
        What the engines did otherwise than the estimate supposes, in sentences.
    """
    plan = plans[0]
    inside = real(plan, stage, several=several)
    with TemporaryDirectory() as folder, silent(), quiet(), inside as built:
        filled = {role: filled_in(fields) for role, fields in configs.items()}
        config = settings_of(plan, Path(folder), filled)
        engines = {}
        for model in setup_of(plan).models:
            with built(model.role):
                engines[model.role] = made(model.role, config)
        told = differences(engines, plan)
        emptied = stage.empty_cache if plan.empty_cache == "between-phases" else lambda: None
        steps = Steps(plan, engines, lambda _: None, mark, emptied)
        for index, each in enumerate(plans):
            batches = {training: batch(each, training=training) for training in (False, True)}
            steps.given = partial(_copied, batches)  # in host RAM, as a worker is given them
            begins(index)
            gc.collect()
            steps.step()
        del engines, steps
        gc.collect()
        return told


def _copied(batches: dict[bool, Any], training: bool) -> Any:
    return batches[training].copy()
