"""The log of two steps of TRL's own trainer on tensors without data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.dryrun.logs.log import Log
from planner.dryrun.run.branches import four_bit
from planner.dryrun.run.stage import DryStage
from planner.dryrun.run.world import On
from planner.frameworks.trl.own_step import autocasts
from planner.frameworks.trl.run.made import fed, scored_in_part, trainer_of
from planner.frameworks.trl.run.offloading import offloading
from planner.frameworks.trl.run.packages import packages
from planner.frameworks.trl.run.phases import Phases
from planner.frameworks.trl.run.seams import Head, answers, seams, unquantised
from planner.launch.huggingface.run.steps import Seams, logged
from planner.launch.huggingface.run.watched import Configs, Models
from planner.plan import Plan
from planner.plan.methods import method_of
from planner.steps.stage import DTYPES, Stage


def execute(plan: Plan, configs: Configs, on: On = "gpu", head: Head | None = None) -> Log:
    """The log of two optimizer steps with the models exactly as the configs say.

    Args:
        plan: one that :func:`planner.frameworks.trl.own_step.refusal` has nothing against.
        configs: config.json fields by role.
        on: whose branches to take.
        head: whose branch of TRL's fused head; that of ``on`` unless told.
    """
    scored = plan.response_tokens
    if method_of(plan).objective == "cross-entropy":
        scored = plan.prompt_tokens + plan.response_tokens - 1
        if plan.batch_shape == "packed":
            scored *= plan.micro_batch_size  # of one row

    def made(folder: Path, stage: DryStage) -> Any:
        trainer = trainer_of(plan, folder)
        if plan.finetuning == "qlora":
            # Who counts its weights while it trains would ask for the package.
            trainer.model.get_base_model().is_loaded_in_4bit = False
            four_bit.adapted(trainer.model, DTYPES[plan.dtype])
        fed(trainer, [plan], lambda: wakes(plan, stage))
        scored_in_part(trainer)
        return trainer

    def inside(stage: DryStage) -> Seams:
        model = Models(plan, configs["policy"], stage)
        asked, away = packages(plan, stage, on_card=on == "gpu"), offloading(plan, stage)
        seamed = seams(stage.device, head or on, model.made, stage.empty_cache)
        return seamed, unquantised(), asked, away

    fakes, given = autocasts(plan), answers(scored)
    return logged(plan, on, made, inside, Phases, autocast=fakes, answers=given)


def wakes(plan: Plan, stage: Stage) -> None:
    """TRL empties the cache before it wakes an engine that slept."""
    if plan.empty_cache == "between-phases":
        stage.empty_cache()
