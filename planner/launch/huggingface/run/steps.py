"""A trainer's steps: two without data, of which a log is made, or those of a trial."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from planner.dryrun.logs.log import Log
from planner.dryrun.run.stage import DryStage
from planner.dryrun.run.tracker import Tracker
from planner.dryrun.run.world import On, silent, world
from planner.launch.huggingface.run.phases import Mark, Phases
from planner.launch.huggingface.run.ranks import alone, launched, played, waited_for
from planner.launch.huggingface.run.seams import Answers
from planner.launch.huggingface.run.told import differences
from planner.launch.huggingface.run.watched import Watched
from planner.plan import Plan
from planner.steps.stage import Stage

Seams = Iterable[AbstractContextManager[Any]]
"""What is replaced while a trainer is made and trains."""


def logged(
    plan: Plan,
    on: On,
    made: Callable[[Path, DryStage], Any],
    seams: Callable[[DryStage], Seams],
    phases: type[Phases] = Phases,
    *,
    autocast: bool,
    answers: Answers,
) -> Log:
    """The log of two optimizer steps on tensors without data.

    Args:
        plan: what is trained.
        on: whose branches to take.
        made: the plan's trainer with its batches; given an empty folder and where models are made.
        seams: what is replaced on a stage.
        phases: marks the trainer's phases.
        autocast: whether the trainer asks for it.
        answers: what operators give whose answer depends on data.
    """
    # Of tensors on meta none is in host RAM, and FSDP2 asks for that.
    inside = world(plan, on, autocast=autocast or plan.offload != "none", answers=answers)
    with inside as (tracker, stage, _), TemporaryDirectory() as name:
        folder = Path(name)
        launch = launched(plan, folder, stage.device)
        with ExitStack() as stack:
            for each in (silent(), *seams(stage), launch, alone(plan, stage), tracker):
                stack.enter_context(each)
            length = _events(plan, on, made(folder, stage), phases, tracker, stage)
        gc.collect()
    del tracker.log.events[length:]
    return tracker.log


def _events(
    plan: Plan, on: On, trainer: Any, phases: type[Phases], tracker: Tracker, stage: DryStage
) -> int:
    """How many there are once a trainer has made its steps."""
    watched = Watched(trainer, tracker, stage, on_host=on == "gpu" and plan.offload == "all")
    phases(trainer, tracker.phase, watched.step, lambda role: stage.region(role=role))
    trainer.train()
    tracker.log.notes.extend(differences(trainer, plan))
    return len(tracker.log.events)


def trained(
    plans: Sequence[Plan],
    stage: Stage,
    mark: Mark,
    begins: Callable[[int], None],
    made: Callable[[Path], Any],
    seams: Seams,
    phases: type[Phases] = Phases,
    *,
    several: bool,
) -> list[str]:
    """A step of each plan on real tensors, and what the trainer did otherwise, in sentences.

    Args:
        plans: of every step, which differ in lengths alone.
        stage: where models are made.
        mark: told of phases as they begin and end.
        begins: told the place of a step that begins.
        made: the trainer with its batches; given an empty folder.
        seams: what is replaced.
        phases: marks the trainer's phases.
        several: whether all of a sharded plan's processes are there, this one among them.
    """
    plan, steps = plans[0], iter(range(len(plans)))
    waits = several and stage.device.type == "cpu"
    with TemporaryDirectory() as name, silent(), ExitStack() as inside:
        folder = Path(name)
        for each in (
            *seams,
            launched(plan, folder, stage.device),
            waited_for(plan) if waits else nullcontext(),
            nullcontext() if several else played(plan),
        ):
            inside.enter_context(each)
        trainer = made(folder)
        phases(trainer, mark, lambda: begins(next(steps)))
        gc.collect()
        trainer.train()
        told = differences(trainer, plan)
        del trainer
        gc.collect()  # DDP goes before what it speaks through
        return told
