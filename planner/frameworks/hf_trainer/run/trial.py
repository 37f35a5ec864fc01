"""transformers' own Trainer on real tensors: the steps of a trial."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from planner.dryrun.run.world import silent
from planner.frameworks.hf_trainer.run import packages, ranks, seams
from planner.frameworks.hf_trainer.run.made import Batches, trainer_of
from planner.frameworks.hf_trainer.run.offloading import offloading
from planner.frameworks.hf_trainer.run.phases import Mark, Phases
from planner.frameworks.hf_trainer.run.step import loaded
from planner.frameworks.hf_trainer.run.told import differences
from planner.frameworks.hf_trainer.run.watched import Configs
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
    plan, steps = plans[0], iter(range(len(plans)))
    on_cpu = stage.device.type == "cpu"
    with TemporaryDirectory() as folder, silent(), ExitStack() as inside:
        for each in (
            seams.real(stage.device),
            packages.real(plan, on_cpu=on_cpu),
            offloading(plan, stage),
            ranks.launched(plan, Path(folder), stage.device),
            ranks.waited_for(plan) if several and on_cpu else nullcontext(),
            nullcontext() if several else ranks.played(plan),
        ):
            inside.enter_context(each)
        load = lambda: loaded(plan, configs, stage)  # noqa: E731
        trainer = trainer_of(plan, Path(folder), load, steps=len(plans), on_cpu=on_cpu)
        Batches(trainer, plans, lambda value: value.to(stage.device))
        Phases(trainer, mark, lambda: begins(next(steps)))
        gc.collect()
        trainer.train()
        told = differences(trainer, plan)
        del trainer
        gc.collect()  # DDP goes before what it speaks through
        return told
