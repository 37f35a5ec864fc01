"""The log of two steps of TRL's own trainer on tensors without data."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import TrainerCallback

from planner.dryrun.logs import log as logs
from planner.dryrun.logs.log import Log
from planner.dryrun.run.branches import four_bit
from planner.dryrun.run.stage import DryStage, local
from planner.dryrun.run.tracker import Tracker
from planner.dryrun.run.world import On, silent, world
from planner.frameworks.trl.own_step import autocasts
from planner.frameworks.trl.run.made import fed, scored_in_part, trainer_of
from planner.frameworks.trl.run.offloading import offloading
from planner.frameworks.trl.run.packages import packages
from planner.frameworks.trl.run.phases import Phases
from planner.frameworks.trl.run.ranks import alone, launched
from planner.frameworks.trl.run.seams import Head, answers, seams, unquantised
from planner.frameworks.trl.run.told import differences
from planner.plan import Plan
from planner.plan.methods import method_of
from planner.steps import models
from planner.steps.stage import DTYPES, Stage

Configs = Mapping[str, Mapping[str, Any]]


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
    watched = _Watched(trainer, tracker, stage, on_host=on == "gpu" and plan.offload == "all")
    Phases(trainer, tracker.phase, watched.step, lambda role: stage.region(role=role))
    trainer.train()
    tracker.log.notes.extend(differences(trainer, plan))
    return len(tracker.log.events)


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


class _Watched(TrainerCallback):
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
        for owner, name in ((self._trainer, "_clip_grad_norm"), (optimizer, "step")):
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


def wakes(plan: Plan, stage: Stage) -> None:
    """TRL empties the cache before it wakes an engine that slept."""
    if plan.empty_cache == "between-phases":
        stage.empty_cache()
