"""The log of two steps of transformers' own Trainer on tensors without data."""

from __future__ import annotations

import gc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from planner.dryrun.logs.log import Log
from planner.dryrun.run.stage import DryStage
from planner.dryrun.run.tracker import Tracker
from planner.dryrun.run.world import On, silent, world
from planner.frameworks.hf_trainer.own_step import autocasts
from planner.frameworks.hf_trainer.run.made import Batches, trainer_of
from planner.frameworks.hf_trainer.run.offloading import offloading
from planner.frameworks.hf_trainer.run.packages import packages
from planner.frameworks.hf_trainer.run.phases import Phases
from planner.frameworks.hf_trainer.run.ranks import alone, launched
from planner.frameworks.hf_trainer.run.seams import ANSWERS, seams
from planner.frameworks.hf_trainer.run.told import differences
from planner.frameworks.hf_trainer.run.watched import Configs, Models, Watched
from planner.launch.huggingface.precision import loaded_dtype
from planner.plan import Plan
from planner.steps.stage import Stage


def execute(plan: Plan, configs: Configs, on: On = "gpu", lists: On | None = None) -> Log:
    """The log of two optimizer steps with the model exactly as the config says.

    Args:
        plan: one that :func:`planner.frameworks.hf_trainer.own_step.refusal` has nothing against.
        configs: config.json fields by role.
        on: whose branches to take.
        lists: whose optimizers and clipping take; those of ``on`` unless told.
    """
    # Of tensors on meta none is in host RAM, and FSDP2 asks for that.
    fakes = autocasts(plan) or plan.offload != "none"
    inside = world(plan, on, autocast=fakes, answers=ANSWERS)
    with inside as (tracker, stage, _), TemporaryDirectory() as name:
        folder, device = Path(name), stage.device
        seamed = seams(device, lists or on, stage.empty_cache)
        launch = launched(plan, folder, device)
        asked, away = packages(plan, stage, on_card=on == "gpu"), offloading(plan, stage)
        with silent(), seamed, launch, alone(plan, stage), asked, away, tracker:
            length = _trained(plan, configs, folder, tracker, stage, on)
        gc.collect()
    del tracker.log.events[length:]
    return tracker.log


def _trained(
    plan: Plan, configs: Configs, folder: Path, tracker: Tracker, stage: DryStage, on: On
) -> int:
    """Events there are once two steps are made."""
    trainer = trainer_of(plan, folder, lambda: loaded(plan, configs, stage))
    Batches(trainer, [plan], lambda value: torch.empty_like(value, device=stage.device))
    watched = Watched(trainer, tracker, stage, on_host=on == "gpu" and plan.offload == "all")
    Phases(trainer, tracker.phase, watched.step, lambda role: stage.region(role=role))
    trainer.train()
    tracker.log.notes.extend(differences(trainer, plan))
    return len(tracker.log.events)


def loaded(plan: Plan, configs: Configs, stage: Stage) -> Any:
    """The policy from its config, as from_pretrained leaves it: in evaluation mode."""
    dtype = getattr(torch, loaded_dtype(plan))
    return Models(plan, configs["policy"], stage).made(dtype).eval()
