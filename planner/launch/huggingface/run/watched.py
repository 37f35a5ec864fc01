"""What a trainer trains, made without a checkpoint, and what of it belongs to whom."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import wraps
from typing import Any

import torch
from transformers import TrainerCallback

from planner.dryrun.logs import log as logs
from planner.dryrun.run.branches import four_bit
from planner.dryrun.run.stage import DryStage, local
from planner.dryrun.run.tracker import Tracker
from planner.plan import Plan
from planner.steps import models
from planner.steps.stage import Stage

Configs = Mapping[str, Mapping[str, Any]]


class Models:
    """Models from a config in place of a checkpoint, the policy first."""

    def __init__(self, plan: Plan, config: Mapping[str, Any], stage: Stage) -> None:
        self._attention, self._config, self._stage = plan.attention, config, stage
        self._four_bit = plan.finetuning == "qlora"
        self._roles = ["reference", "policy"]

    def made(self, dtype: torch.dtype) -> Any:
        """The next role's, on the stage's device."""
        role = self._roles.pop()
        with self._stage.region(role=role, category="parameters"):
            settings = models.settings_of(self._config, self._stage.attention(self._attention))
            found: Any = models.language_model(self._stage, settings, dtype)
            if self._four_bit:
                four_bit.quantised(models.layers(found), dtype)
                found.is_loaded_in_4bit = True
        self._stage.labelled(role, found)
        return found


class Watched(TrainerCallback):
    """Says whose a trainer's weights, gradients and states are, once it has them."""

    def __init__(
        self, trainer: Any, tracker: Tracker, stage: DryStage, *, on_host: bool = False
    ) -> None:
        self._tracker, self._steps, self._on_host = tracker, 0, on_host
        self._stage, self._trainer = stage, trainer
        trainer.add_callback(self)

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """The optimizer is there, weights are sharded, and the step's memory begins."""
        self._stage.built("policy", self._trainer.model)
        if getattr(self._trainer, "ref_model", None) is not None:
            self._stage.built("reference", self._trainer.ref_model)
        optimizer = self._trainer.optimizer.optimizer
        self._stage.optimized("policy", optimizer)
        if self._on_host:
            self._wait(optimizer)
        gc.collect()
        self._tracker.settle()

    def _wait(self, optimizer: Any) -> None:
        """State stays in host RAM, where it is updated."""
        models = (self._trainer.model, getattr(self._trainer, "ref_model", None))
        for model in filter(None, models):
            self._stage.move((local(weight) for weight in model.parameters()), "host")
        scaled = "_optimizer_patched_step_method"  # what accelerate puts in place beside a scaler
        owners = [(self._trainer, "_clip_grad_norm"), (optimizer, "step")]
        owners += [(self._trainer.optimizer, scaled)] * hasattr(self._trainer.optimizer, scaled)
        for owner, name in owners:
            setattr(owner, name, self._there(getattr(owner, name)))

    def _there(self, work: Any) -> Any:
        @wraps(work)
        def waiting(*given: Any, **named: Any) -> Any:
            with self._tracker.on_host():
                return work(*given, **named)

        return waiting

    def step(self) -> None:
        """Another optimizer step begins."""
        self._tracker.log.events.append((logs.STEP, self._steps, 0))
        self._steps += 1
