"""The log of two steps of verl's own engines on tensors without data."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from planner.dryrun.logs import log as logs
from planner.dryrun.logs.log import Log
from planner.dryrun.run.stage import DryStage
from planner.dryrun.run.tracker import Tracker
from planner.dryrun.run.world import On, silent, world
from planner.frameworks.verl.run.batches import batch
from planner.frameworks.verl.run.made import Made, made, settings_of
from planner.frameworks.verl.run.offloading import waits
from planner.frameworks.verl.run.seams import answers, seams
from planner.frameworks.verl.run.steps import Steps, quiet
from planner.frameworks.verl.run.told import differences
from planner.plan import Plan
from planner.setup.setup import setup_of

STEPS = 2
Configs = Mapping[str, Mapping[str, Any]]


def execute(plan: Plan, configs: Configs, on: On = "gpu", head: On | None = None) -> Log:
    """The log of two optimizer steps with the models exactly as the configs say.

    Args:
        plan: one that :func:`planner.frameworks.verl.own_step.refusal` has nothing against.
        configs: config.json fields by role.
        on: whose branches to take.
        head: whose kernels meet the vocabulary; those of ``on`` unless told.
    """
    batches = {training: batch(plan, training=training) for training in (False, True)}
    inside = world(plan, on, autocast=True, answers=answers())
    with inside as (tracker, stage, _), TemporaryDirectory() as folder, silent(), quiet():
        with seams(plan, stage, on, head or on) as built, tracker:
            for each in batches.values():
                _on_host(each, tracker)
            config = settings_of(plan, Path(folder), configs)
            engines = {}
            for model in setup_of(plan).models:
                with built(model.role):
                    engines[model.role] = made(model.role, config)
                _told(model.role, engines[model.role], stage, on)
            steps = Steps(
                plan,
                engines,
                lambda training: batches[training].copy(),
                tracker.phase,
                stage.empty_cache if plan.empty_cache == "between-phases" else lambda: None,
                lambda role: stage.region(role=role),
            )
            tracker.log.notes.extend(differences(engines, plan))
            gc.collect()
            tracker.settle()
            for index in range(STEPS):
                tracker.log.events.append((logs.STEP, index, 0))
                steps.step()
            length = len(tracker.log.events)
        del steps, engines
        gc.collect()
    del tracker.log.events[length:]
    return tracker.log


def _on_host(data: Any, tracker: Tracker) -> None:
    """What a worker is given is in host RAM."""
    rows: Iterator[Any] = (each for each in data.values() if isinstance(each, torch.Tensor))
    with tracker.on_host():
        for field in rows:
            for part in (field.values(), field.offsets()):
                tracker.meet(part, torch.ops.aten.empty.memory_format)


def _told(role: str, found: Made, stage: DryStage, on: On) -> None:
    """Say whose weights and states are, and what is in host RAM."""
    engine = found.engine
    stage.built(role, engine.module)
    if engine.optimizer is not None:
        stage.optimized(role, engine.optimizer)
    if on == "gpu":
        waits(engine, stage)
