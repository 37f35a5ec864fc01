"""Runs a plan's own steps on a real device and reads them phase by phase. Imports torch."""

from __future__ import annotations

import gc
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs.lengths import SHARES, shortened
from planner.plan import Plan
from planner.quantities import quantities
from planner.steps import run as runs
from planner.steps.run import Run
from planner.trial.allocations import Allocations, Marks
from planner.trial.collectives import settled
from planner.trial.endings import MemoryEnded
from planner.trial.meter import CudaMeter, Meter, PhaseLog, ProcessMeter
from planner.trial.stage import TrialStage
from planner.trial.world import ranks, sharding

SEED = 7
WATCHED = 1
"""The step whose allocations a CPU run reports: the first in which every state exists."""
ALLOCATION_FAILED = "can't allocate memory"

Report = Callable[[str, dict[str, Any]], None]
"""Told the name of what begins, and more about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How to run: on what, how often, on which batches.

    ``warm_up`` steps are run before the ``steps`` that are measured; the first of them makes the
    optimizer's states.
    """

    device: str
    steps: int
    warm_up: int
    cap_bytes: int | None = None
    random_lengths: bool = False
    model_folder: Path | None = None
    snapshot: Path | None = None
    onednn: bool = False
    """On a CPU, whether watched steps may use oneDNN, which is faster and takes scratch."""


@dataclass(slots=True)
class Readings:
    """What a run says, step by step; plain data.

    ``steps`` are the meter's readings by phase, ``entries`` the seconds of each time in a phase,
    ``decode`` the seconds of each sampled token of a rollout, ``plans`` what each step ran (of
    other lengths where these are random). ``live`` are the peaks that a CPU's allocator reported.
    """

    steps: list[dict[str, dict[str, float]]] = field(default_factory=list)
    entries: list[dict[str, list[float]]] = field(default_factory=list)
    decode: list[dict[int, float]] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    live: dict[str, int] | None = None


def meter_of(device: str) -> Meter:
    """What reads a device."""
    kind, _, index = device.partition(":")
    return CudaMeter(int(index or 0)) if kind == "cuda" else ProcessMeter()


def measure(plan: Plan, choices: Choices, report: Report) -> Readings:
    """Build the plan's models and run its steps.

    Raises:
        MemoryEnded: where the device, or the cap, had no more memory.
        CannotRun: for a plan that is not for these processes.
    """
    return _Measurement(plan, choices, report).run()


class _Measurement:
    def __init__(self, plan: Plan, choices: Choices, report: Report) -> None:
        self.plan, self.choices, self.report = plan, choices, report
        self.on_cpu = choices.device == "cpu"
        self.meter = meter_of(choices.device)
        self.log = PhaseLog(self.meter)
        self.marks = Marks()
        self.allocations = Allocations(choices.cap_bytes)
        self.found = Readings()
        self.asked: list[tuple[int, int]] = []
        self.names: list[str] = []

    def run(self) -> Readings:
        choices = self.choices
        torch.manual_seed(0)
        if choices.cap_bytes and not self.on_cpu:
            self.meter.cap(choices.cap_bytes)
        try:
            with (
                warnings.catch_warnings(),
                self._recorded(),
                sharding(self.plan, choices.device) as wrap,
            ):
                warnings.simplefilter("ignore")
                stage = TrialStage(choices.device, self._on_phase, choices.model_folder)
                self.report("building", {})
                with self._window("build", watched=True):
                    run = runs.build(self.plan, stage, configs_of(self.plan), wrap)
                    gc.collect()
                    runs.send_away(run)
                self._steps(run, stage)
                stage.synchronize()
                del run
        except torch.OutOfMemoryError:
            asked, live = self.asked[-1] if self.asked else (None, None)
            raise self._ended(asked, live) from None
        except RuntimeError as error:
            if not self.on_cpu or ALLOCATION_FAILED not in str(error):
                raise
            raise self._ended(None, None) from None
        finally:
            gc.collect()
            if not self.on_cpu:
                torch.cuda.empty_cache()
        return self.found

    def _steps(self, run: Run, stage: TrialStage) -> None:
        step = import_module(f"planner.methods.{self.plan.method}.step").step
        total = self.choices.warm_up + self.choices.steps
        whole = run.plan, run.q
        for index, plan in enumerate(self._plans(total)):
            run.plan, run.q = (plan, quantities(plan)) if plan is not self.plan else whole
            kind = "first step" if not index else "warm-up"
            if index >= self.choices.warm_up:
                kind = "measuring"
            self.report(kind, {"step": index + 1, "steps": total})
            stage.decode_seconds = {}
            self.log.step()
            with self._window("between phases", watched=index <= WATCHED, last=index == WATCHED):
                step(run)
            self.found.plans.append(plan)
            self.found.decode.append(stage.decode_seconds)
            self.found.steps, self.found.entries = self.log.steps, self.log.entries
            if self.on_cpu and index == WATCHED:
                self.found.live = self.allocations.peaks

    def _plans(self, total: int) -> list[Plan]:
        """The plan of each step: with random lengths, shorter ones among the measured steps."""
        if not self.choices.random_lengths:
            return [self.plan] * total
        draw = random.Random(SEED)
        measured = [
            self.plan if not place else shortened(self.plan, draw.choice(SHARES))
            for place in range(self.choices.steps)
        ]
        draw.shuffle(measured)
        return [self.plan] * self.choices.warm_up + measured

    @contextmanager
    def _window(self, outside: str, *, watched: bool, last: bool = False) -> Iterator[None]:
        """On a CPU, a stretch whose allocations are counted.

        One thread runs inside, and oneDNN does where it has to: what else they take depends on
        the processor.
        """
        if not self.on_cpu or not watched:
            yield
            return
        trace = self.choices.snapshot if last else None
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with (
                torch.backends.mkldnn.flags(enabled=self.choices.onednn),
                self.allocations.window(outside, trace),
                settled() if ranks() > 1 else nullcontext(),
                self.marks.last_step() if last else nullcontext(),
            ):
                yield
        finally:
            torch.set_num_threads(threads)

    def _on_phase(self, name: str, begins: bool) -> None:
        if begins and name not in self.names[-1:]:
            self.names.append(name)
            self.report("phase", {"phase": name})
        if self.on_cpu:
            self.marks.phase(name, begins)
        self.log.on_phase(name, begins)

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """On a card: what was asked when memory ended, and a snapshot if one is wanted."""
        if self.on_cpu:
            yield
            return

        _observe(self.asked)
        snapshot = self.choices.snapshot
        if snapshot is not None:
            torch.cuda.memory._record_memory_history(max_entries=400_000)
        try:
            yield
        finally:
            if snapshot is not None:
                torch.cuda.memory._dump_snapshot(os.fspath(snapshot))  # type: ignore[no-untyped-call]
                torch.cuda.memory._record_memory_history(enabled=None)

    def _ended(self, asked: int | None, live: int | None) -> MemoryEnded:
        capacity = self.choices.cap_bytes
        if capacity is None and not self.on_cpu:
            capacity = int(torch.cuda.mem_get_info(self.choices.device)[1])
        return MemoryEnded(
            self.log.current, asked_bytes=asked, live_bytes=live, capacity_bytes=capacity
        )


_asked: list[list[tuple[int, int]]] = []
"""Where the observer writes; it is attached once, since nobody can take it off again."""


def _observe(asked: list[tuple[int, int]]) -> None:
    """Note bytes asked for and bytes in use whenever the allocator of a card gives up."""
    _asked.append(asked)
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if len(_asked) > 1 or attach is None:
        return

    def noticed(device: int, size: int, allowed: int, free: int) -> None:
        live = torch.cuda.memory_stats(device)["allocated_bytes.all.current"]
        _asked[-1].append((size, int(live)))

    attach(noticed)
