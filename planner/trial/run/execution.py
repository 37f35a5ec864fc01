"""Runs a plan's own steps on a real device and reads them phase by phase. Imports torch."""

from __future__ import annotations

import gc
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from planner import registry
from planner.dryrun.ask.request import configs_of
from planner.dryrun.logs.lengths import SHARES, shortened
from planner.plan import Plan
from planner.plan.frameworks import code_of, ours
from planner.plan.methods import part
from planner.setup.setup import setup_of
from planner.steps import run as runs
from planner.steps.sharding import Wrapper
from planner.trial.ask.endings import MemoryEnded
from planner.trial.ask.request import TrialRequest
from planner.trial.run.allocations import Allocations, Marks
from planner.trial.run.collectives import settled
from planner.trial.run.meter import CudaMeter, PhaseLog, ProcessMeter
from planner.trial.run.process_group import ranks, sharding
from planner.trial.run.trial_stage import TrialStage

SEED = 7
WATCHED = 1
"""The step whose allocations a CPU run reports: the first in which every state exists."""
ALLOCATION_FAILED = "can't allocate memory"

Report = Callable[[str, dict[str, Any]], None]
"""Told the name of what begins, and more about it."""


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


class Execution:
    """One run of a plan's models and steps, in a process that is told how.

    Args:
        plan: what to run.
        request: how often, on which batches, with which cap and weights. Of ``warm_up`` steps
            before the measured ones the first makes the optimizer's states.
        device: this process's own, ``cpu`` or ``cuda:N``.
        report: told of everything that begins.
        snapshot: where to write the allocations, if they are wanted of this process.
        onednn: on a CPU, whether watched steps may use oneDNN, which is faster and takes scratch.
    """

    def __init__(
        self,
        plan: Plan,
        request: TrialRequest,
        device: str,
        report: Report,
        *,
        snapshot: Path | None = None,
        onednn: bool = False,
    ) -> None:
        self.plan, self.request, self.device, self.report = plan, request, device, report
        self.snapshot, self.onednn = snapshot, onednn
        kind, _, index = device.partition(":")
        self.on_cpu = kind == "cpu"
        self.meter = ProcessMeter() if self.on_cpu else CudaMeter(int(index or 0))
        self.log = PhaseLog(self.meter)
        self.marks = Marks()
        self.allocations = Allocations(request.cap_bytes)
        self.found = Readings(steps=self.log.steps, entries=self.log.entries)
        self.notes: list[str] = []
        """What another's code did otherwise than the estimate supposes."""
        self.asked: list[tuple[int, int]] = []
        self.names: list[str] = []

    def run(self) -> Readings:
        """Build the plan's models and run its steps.

        Raises:
            MemoryEnded: where the device, or the cap, had no more memory.
            CannotRun: for a plan that is not for these processes.
        """
        torch.manual_seed(0)
        if self.request.cap_bytes:
            self.meter.cap(self.request.cap_bytes)
        try:
            with (
                warnings.catch_warnings(),
                self._recorded(),
                sharding(self.plan, self.device) as wrap,
            ):
                warnings.simplefilter("ignore")
                weights = self.request.model_folder
                stage = TrialStage(self.device, self._on_phase, Path(weights) if weights else None)
                self.report("building", {})
                if ours(code_of(self.plan.framework)):
                    self._ours(stage, wrap)
                else:
                    self._theirs(stage)
                stage.synchronize()
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

    def _ours(self, stage: TrialStage, wrap: Wrapper) -> None:
        """The steps of ``planner/methods``."""
        with self._window("build", watched=True):
            run = runs.build(self.plan, stage, configs_of(self.plan), wrap)
            gc.collect()
            runs.send_away(run)
        step = part(self.plan.method, "step", "step")
        plans, whole = self._plans(), run.setup
        for index, plan in enumerate(plans):
            run.setup = setup_of(plan) if plan is not self.plan else whole
            self._begun(index, len(plans), stage)
            with self._step_window(index):
                step(run)
            self._ended_step(plan, stage)

    def _theirs(self, stage: TrialStage) -> None:
        """The steps of the plan's framework, by its own code; its loop says where each begins.

        What it makes between two steps is counted with the one before.
        """
        theirs = registry.load("frameworks", self.plan.framework, "run.trial")
        plans = self._plans()
        with ExitStack() as window:

            def begins(index: int) -> None:
                window.close()
                if index:
                    self._ended_step(plans[index - 1], stage)
                self._begun(index, len(plans), stage)
                window.enter_context(self._step_window(index))

            window.enter_context(self._window("build", watched=True))
            told = theirs.train(
                plans, configs_of(self.plan), stage, self._on_phase, begins, several=ranks() > 1
            )
            window.close()
        self._ended_step(plans[-1], stage)
        self.notes.extend(told)

    def _begun(self, index: int, count: int, stage: TrialStage) -> None:
        kind = "first step" if not index else "warm-up"
        if index >= self.request.warm_up:
            kind = "measuring"
        self.report(kind, {"step": index + 1, "steps": count})
        stage.decode_seconds = {}
        self.log.step()

    def _step_window(self, index: int) -> AbstractContextManager[None]:
        watched, last = index <= WATCHED, index == WATCHED
        return self._window("between phases", watched=watched, last=last)

    def _ended_step(self, plan: Plan, stage: TrialStage) -> None:
        if self.on_cpu and len(self.found.plans) == WATCHED:
            self.found.live = self.allocations.peaks
        self.found.plans.append(plan)
        self.found.decode.append(stage.decode_seconds)

    def _plans(self) -> list[Plan]:
        """The plan of each step: with random lengths, shorter ones among the measured steps."""
        measured = [self.plan] * self.request.steps
        if self.request.lengths == "random":
            draw = random.Random(SEED)
            measured[1:] = [shortened(plan, draw.choice(SHARES)) for plan in measured[1:]]
            draw.shuffle(measured)
        return [self.plan] * self.request.warm_up + measured

    @contextmanager
    def _window(self, outside: str, *, watched: bool, last: bool = False) -> Iterator[None]:
        """On a CPU, a stretch whose allocations are counted.

        One thread runs inside, and oneDNN does where it has to: what else they take depends on
        the processor.
        """
        if not self.on_cpu or not watched:
            yield
            return
        trace = self.snapshot if last else None
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with (
                torch.backends.mkldnn.flags(enabled=self.onednn),
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
        if self.snapshot is not None:
            torch.cuda.memory._record_memory_history(max_entries=400_000)
        try:
            yield
        finally:
            if self.snapshot is not None:
                torch.cuda.memory._dump_snapshot(os.fspath(self.snapshot))  # type: ignore[no-untyped-call]
                torch.cuda.memory._record_memory_history(enabled=None)

    def _ended(self, asked: int | None, live: int | None) -> MemoryEnded:
        capacity = self.request.cap_bytes
        if capacity is None and not self.on_cpu:
            capacity = int(torch.cuda.mem_get_info(self.device)[1])
        return MemoryEnded(self.log.current, asked, live, capacity)


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
