"""The log of two steps of transformers' own Trainer on tensors without data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from planner.dryrun.logs.log import Log
from planner.dryrun.run.stage import DryStage
from planner.dryrun.run.world import On
from planner.frameworks.hf_trainer.own_step import autocasts
from planner.frameworks.hf_trainer.run.made import fed, trainer_of
from planner.launch.huggingface.precision import loaded_dtype
from planner.launch.huggingface.run.offloading import offloading
from planner.launch.huggingface.run.packages import packages
from planner.launch.huggingface.run.seams import ANSWERS, seams
from planner.launch.huggingface.run.steps import Seams, logged
from planner.launch.huggingface.run.watched import Configs, Models
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

    def made(folder: Path, stage: DryStage) -> Any:
        trainer = trainer_of(plan, folder, lambda: loaded(plan, configs, stage))
        fed(trainer, [plan], lambda value: torch.empty_like(value, device=stage.device))
        return trainer

    def inside(stage: DryStage) -> Seams:
        asked, away = packages(plan, stage, on_card=on == "gpu"), offloading(plan, stage)
        return seams(stage.device, lists or on, stage.empty_cache), asked, away

    return logged(plan, on, made, inside, autocast=autocasts(plan), answers=ANSWERS)


def loaded(plan: Plan, configs: Configs, stage: Stage) -> Any:
    """The policy from its config, as from_pretrained leaves it: in evaluation mode."""
    dtype = getattr(torch, loaded_dtype(plan))
    return Models(plan, configs["policy"], stage).made(dtype).eval()
