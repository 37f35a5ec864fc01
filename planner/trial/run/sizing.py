"""What a trial's plans need by their dry runs, beside what is here.

From it come the depths that run, and what would fit where they do not. Imports torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from planner.dryrun.ask.request import configs_of
from planner.dryrun.run.execute import repeated
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.steps.stage import DTYPES
from planner.trial.ask.endings import CannotRun
from planner.trial.ask.footprints import PhaseFigures
from planner.trial.ask.kernels import with_kernels_here
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.variants import executed, layers_of, with_layers
from planner.trial.run import cadence, rollout
from planner.trial.run.device import processor_flops_per_second
from planner.trial.run.extrapolation import Depth
from planner.trial.run.prediction import executed_bytes, predicted
from planner.trial.run.truncation import SHARE, Needs, Room, two_depths
from planner.units import read_bytes, read_seconds

CONTEXT_BYTES = 768 * 2**20
"""Room left on a card for its context and libraries when a trial decides what fits."""
REACHED = {"cpu": 0.25, "cuda": 0.15}
"""Share of a device's peak that small eager steps reach at the least."""
TRIED = 10
"""Smaller plans that are looked at after memory has ended."""


class Sizing:
    """One trial's plan on its device; every dry run is asked for once.

    Args:
        request: what to run, with its limits.
        plan: the plan that the trial executes.
        capacity_bytes: what the device or the cap has; None when nobody knows.
        others_bytes: of a card, what other processes have taken.
        start: ``time.perf_counter()`` when the trial began.
        note: told sentences for the result.
    """

    def __init__(
        self,
        request: TrialRequest,
        plan: Plan,
        *,
        capacity_bytes: int | None,
        others_bytes: int,
        start: float,
        note: Callable[..., None],
    ) -> None:
        self.request, self.plan, self.capacity = request, plan, capacity_bytes
        self.level = "requested_bytes" if request.kind == "cpu" else "reserved_bytes"
        self._others_bytes, self._start, self._note = others_bytes, start, note
        self._dry_runs: dict[Plan, Depth] = {}
        self.full = self.predicted(plan)

    @property
    def engine_runs(self) -> bool:
        """Whether the plan has an engine and this machine can run it."""
        return self.plan.rollout == "vllm-colocated" and not rollout.missing(self.request.kind)

    def predicted(self, plan: Plan) -> Depth:
        """The dry run of what the trial executes of a plan; asked once of each."""
        if plan not in self._dry_runs:
            depth, notes = predicted(plan, self.request.kind)
            self._note(*(note for note in notes if not note.startswith("Branches of the")))
            self._dry_runs[plan] = depth if self.engine_runs else _without_engine(depth)
        return self._dry_runs[plan]

    def needs(self, plan: Plan, depth: Depth) -> Needs:
        """Bytes and seconds of a trial of the plan."""
        sizes = executed_bytes(depth.predicted, self.level).values()
        more = CONTEXT_BYTES if self.request.kind == "cuda" else 0
        flops = cadence.trial_flops(plan, self.request.warm_up + self.request.steps)
        rate = self._rate()
        return Needs(bytes=max(sizes, default=0) + more, seconds=flops / rate if rate else 0.0)

    def room(self) -> Room | None:
        """What is left of memory and time; None when nobody knows the memory."""
        if self.capacity is None:
            return None
        size = self.capacity
        if self.request.kind == "cuda" and not self.request.cap_bytes:
            size -= self._others_bytes
        return Room(bytes=size, seconds=max(self.request.limit_seconds - self._spent(), 1.0))

    def choose(self) -> tuple[int, ...] | None:
        """The numbers of layers to run: one, all of them, or two; None where nothing fits.

        Raises:
            CannotRun: naming ``depths``, for depths that cannot be asked for.
        """
        request, layers = self.request, self.full.layers
        if request.depths:
            wanted = tuple(sorted(set(request.depths)))
            if len(wanted) != 2 or wanted[-1] >= layers:
                raise CannotRun(
                    f"depths: give two different numbers of layers below the model's {layers}."
                )
            return wanted
        room = self.room()
        if request.truncate == "never" or room is None:
            return (layers,)
        full = self.needs(self.plan, self.full)
        if room.holds(full):
            return (layers,)
        self._note(
            f"By the dry run the whole model needs {read_bytes(full.bytes)}, and "
            f"{read_bytes(room.bytes)} are available."
            if full.bytes > SHARE * room.bytes
            else f"The whole model would take about {read_seconds(full.seconds)} here, and the "
            f"limit leaves {read_seconds(room.seconds)}."
        )
        pattern = repeated(self.plan, configs_of(self.plan))
        if pattern is None:
            self._note("The models' layers follow no repeating pattern, so none can be left out.")
            return None
        return two_depths(pattern, full, self._shallow_needs, room)

    def fitting(
        self,
        plans: Iterator[tuple[Plan, str]],
        capacity_bytes: int | None,
        layers: int | None = None,
    ) -> tuple[Plan, str] | None:
        """The first of smaller plans that the dry run expects to fit, and the change in words."""
        if capacity_bytes is None:
            return None
        for tried, (plan, words) in enumerate(plans):
            if tried >= TRIED or self._spent() > 0.9 * self.request.limit_seconds:
                return None
            try:
                running, _ = executed(with_kernels_here(plan, self.request.kind)[0])
                if layers is not None and layers < layers_of(running):
                    running = with_layers(running, layers)
                needs = self.needs(running, self.predicted(running))
            except CannotRun:
                continue
            room = Room(bytes=capacity_bytes, seconds=self.request.limit_seconds)
            fits = needs.bytes <= 0.95 * capacity_bytes if layers is None else room.holds(needs)
            if fits:
                return plan, words
        return None

    def _shallow_needs(self, layers: int) -> Needs:
        plan = with_layers(self.plan, layers)
        return self.needs(plan, self.predicted(plan))

    def _rate(self) -> float | None:
        """FLOPs a second that small steps reach here at the least; None when nobody knows."""
        if self.request.kind == "cuda":
            peak = facts_of(self.plan).gpu.flops_per_second(self.plan.dtype)
            return None if peak is None else REACHED["cuda"] * peak
        return REACHED["cpu"] * processor_flops_per_second(DTYPES[self.plan.dtype])

    def _spent(self) -> float:
        return time.perf_counter() - self._start


def _without_engine(depth: Depth) -> Depth:
    """The dry run's figures less what an engine holds that the trial does not run."""
    phases = tuple(map(_phase_without_engine, depth.predicted.phases))
    return replace(depth, predicted=depth.predicted.model_copy(update={"phases": phases}))


def _phase_without_engine(phase: PhaseFigures) -> PhaseFigures:
    size = sum(term.bytes for term in phase.terms if term.category == "engine" and not term.host)
    if not size or phase.device_bytes is None:
        return phase
    terms = tuple(term for term in phase.terms if term.category != "engine")
    return phase.model_copy(update={"terms": terms, "device_bytes": phase.device_bytes - size})
