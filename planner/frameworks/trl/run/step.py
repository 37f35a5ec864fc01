"""The log of two steps of TRL's own trainer on tensors without data."""

from __future__ import annotations

import gc
from pathlib import Path
from tempfile import TemporaryDirectory

from planner.dryrun.logs.log import Log
from planner.dryrun.run.branches import four_bit
from planner.dryrun.run.stage import DryStage
from planner.dryrun.run.tracker import Tracker
from planner.dryrun.run.world import On, silent, world
from planner.frameworks.hf_trainer.run.ranks import alone, launched
from planner.frameworks.hf_trainer.run.told import differences
from planner.frameworks.hf_trainer.run.watched import Configs, Models, Watched
from planner.frameworks.trl.own_step import autocasts
from planner.frameworks.trl.run.made import fed, scored_in_part, trainer_of
from planner.frameworks.trl.run.offloading import offloading
from planner.frameworks.trl.run.packages import packages
from planner.frameworks.trl.run.phases import Phases
from planner.frameworks.trl.run.seams import Head, answers, seams, unquantised
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
    # Of tensors on meta none is in host RAM, and FSDP2 asks for that.
    fakes = autocasts(plan) or plan.offload != "none"
    inside = world(plan, on, autocast=fakes, answers=answers(scored))
    with inside as (tracker, stage, _), TemporaryDirectory() as folder:
        model = Models(plan, configs["policy"], stage)
        seamed = seams(stage.device, head or on, model.made, stage.empty_cache)
        launch = launched(plan, Path(folder), stage.device)
        asked, away = packages(plan, stage, on_card=on == "gpu"), offloading(plan, stage)
        with silent(), seamed, unquantised(), launch, alone(plan, stage), asked, away, tracker:
            length = _trained(plan, Path(folder), tracker, stage, on)
        gc.collect()
    del tracker.log.events[length:]
    return tracker.log


def _trained(plan: Plan, folder: Path, tracker: Tracker, stage: DryStage, on: On) -> int:
    """Events there are once TRL has made two steps."""
    trainer = trainer_of(plan, folder)
    if plan.finetuning == "qlora":
        # Who counts its weights while it trains would ask for the package.
        trainer.model.get_base_model().is_loaded_in_4bit = False
        four_bit.adapted(trainer.model, DTYPES[plan.dtype])
    fed(trainer, [plan], lambda: wakes(plan, stage))
    scored_in_part(trainer)
    watched = Watched(trainer, tracker, stage, on_host=on == "gpu" and plan.offload == "all")
    Phases(trainer, tracker.phase, watched.step, lambda role: stage.region(role=role))
    trainer.train()
    tracker.log.notes.extend(differences(trainer, plan))
    return len(tracker.log.events)


def wakes(plan: Plan, stage: Stage) -> None:
    """TRL empties the cache before it wakes an engine that slept."""
    if plan.empty_cache == "between-phases":
        stage.empty_cache()
