"""A whole trial in one process: dry run, choice of depth, steps, result. Imports torch.

Every way it can end is a result: memory that ends is one, and so is a plan that nobody can run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from planner.dryrun.execute import repeated
from planner.dryrun.request import configs_of
from planner.estimate import estimate
from planner.facts import facts_of
from planner.link import to_query_string
from planner.plan import FIELDS, Plan, try_plan
from planner.steps.stage import DTYPES
from planner.trial import cadence, engine
from planner.trial.device import (
    capacity_bytes,
    device_of,
    environment,
    processor_flops_per_second,
    used_by_others,
)
from planner.trial.endings import CannotRun, MemoryEnded
from planner.trial.executed import executed, layers_of, smaller, with_layers
from planner.trial.extrapolation import Depth, extrapolated
from planner.trial.figures import FootprintFigures, figures_of, from_data
from planner.trial.measure import Choices, Readings, Report, measure
from planner.trial.measured import censored, figures_of_run, highest, judged
from planner.trial.predicted import executed_bytes, predicted
from planner.trial.request import TrialRequest
from planner.trial.result import Device, OutOfMemory, PredictedPeak, Ran, TrialResult, now
from planner.trial.strict import shown
from planner.trial.truncation import SHARE, Needs, Room, two_depths
from planner.trial.weights import check_folder
from planner.trial.world import RANK_NOTE, everybody, joined, rank, ranks
from planner.units import read_bytes, read_seconds

CONTEXT_BYTES = 768 * 2**20
"""Room left on a card for its context and libraries when a trial decides what fits."""
REACHED = {"cpu": 0.25, "cuda": 0.15}
"""Share of a device's peak that small eager steps reach at the least."""
SMALL_FLOPS = 5e9
"""A step of so much takes seconds even without oneDNN, whose scratch then is not in the bytes."""
TRIED = 10
"""Smaller plans that are looked at after memory has ended."""


@dataclass(slots=True)
class _State:
    """What is known so far; every field is one of a result's."""

    found: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    def note(self, *sentences: str) -> None:
        for sentence in sentences:
            if sentence not in self.notes:
                self.notes.append(shown(sentence, 2000))


def run_trial(
    request: TrialRequest, identifier: str, report: Report, spent_seconds: float = 0.0
) -> TrialResult:
    """Run a trial and say what came of it.

    Args:
        request: what to run.
        identifier: the trial's name.
        report: told of everything that begins; ``known`` brings a result's fields so far.
        spent_seconds: what had gone by before, with imports.
    """
    return _Trial(request, identifier, report, time.perf_counter() - spent_seconds).run()


class _Trial:
    def __init__(
        self, request: TrialRequest, identifier: str, report: Report, start: float
    ) -> None:
        self.request, self.report, self.start = request, report, start
        self.device_name = request.device
        if ranks() > 1 and request.kind == "cuda":
            self.device_name = f"cuda:{os.environ['LOCAL_RANK']}"
        self.state = _State(
            {
                "id": identifier,
                "created": now(),
                "plan": request.plan,
                "steps": request.steps,
                "warm_up": request.warm_up,
                "lengths": request.lengths,
                "weights": "local" if request.model_folder else "random",
                "device": Device(
                    kind=request.kind, name=request.device, cap_bytes=request.cap_bytes
                ),
            }
        )
        self.ran: list[Ran] = []
        self.dry_runs: dict[Plan, Depth] = {}
        self.others_bytes = 0

    def run(self) -> TrialResult:
        try:
            return self._run()
        except (CannotRun, ValueError, NotImplementedError, TypeError) as error:
            sentence = " ".join(str(error).split())
            if sentence.partition(":")[0] not in FIELDS and not isinstance(error, CannotRun):
                sentence = f"{type(error).__name__}: {sentence}"
            return self._result("failed", shown(sentence, 2000))

    def _run(self) -> TrialResult:
        request, state = self.request, self.state
        if request.kind == "cuda":
            others = used_by_others(self.device_name)
            self.others_bytes = others or 0
            if others is None:
                state.note("The driver's tool is silent: other processes count as this one.")
        device = device_of(self.device_name, request.cap_bytes)
        if request.kind == "cuda":
            torch.cuda.set_device(self.device_name)
        state.found["device"] = device.model_copy(update={"processes": ranks()})
        state.found["environment"] = environment(self.device_name)
        plan = self._here(request.planned(), device)
        self.plan, notes = executed(plan)
        state.note(*notes)
        if request.model_folder:
            check_folder(Path(request.model_folder), configs_of(self.plan)["policy"])
        self._say_what_is_not_measured()
        self.report("dry run", {})
        self.level = "requested_bytes" if device.kind == "cpu" else "reserved_bytes"
        self.full = self._predicted(self.plan)
        self.capacity = capacity_bytes(device)
        state.found["predicted"] = self.full.predicted
        state.found["estimated"] = figures_of(estimate(plan))
        self.report("known", self.known())
        with joined(self.device_name):
            return self._measured(device)

    def _measured(self, device: Device) -> TrialResult:
        choice = self._choose(device)
        if choice is None:
            return self._will_not_fit()
        try:
            if len(choice) == 1:
                figures = self._one(choice[0]).measured
                assert figures is not None
            else:
                figures = self._two(choice)
        except MemoryEnded as ended:
            return self._out_of_memory(ended)
        figures = self._with_engine(figures)
        where = "the cap" if device.cap_bytes else device.name
        measured = judged(
            figures, self.capacity if device.kind == "cuda" or device.cap_bytes else None, where
        )
        self.state.found["measured"] = measured
        runs = (one.measured for one in self.ran)
        self.state.found["censored"] = any(censored(one) for one in runs if one is not None)
        if self.state.found["censored"]:
            self.state.note(
                "The allocator had to give memory back and try again: the peaks are those of a "
                "full card, and say nothing of a larger one."
            )
        return self._result("completed", "")

    def _here(self, plan: Plan, device: Device) -> Plan:
        """The plan on the trial's own card, which decides branches and the budget."""
        if device.kind == "cpu":
            self.state.note(
                "It ran on a CPU: bytes are of the same tensors a GPU would hold, with a CPU's "
                "kernels; its seconds say nothing of a GPU's."
            )
            return plan
        if not device.gpu:
            self.state.note(
                f"The catalog has no row for {device.name}: the predictions are for {plan.gpu}."
            )
            return plan
        if device.gpu == plan.gpu:
            return plan
        found, _ = try_plan({**plan.model_dump(), "gpu": device.gpu, "gpu_bytes": 0})
        if found is None:
            self.state.note(f"The plan cannot be made for {device.gpu}; predictions: {plan.gpu}.")
            return plan
        self.state.note(f"The plan's card is {plan.gpu}; trial and predictions are {device.gpu}.")
        return found

    def _say_what_is_not_measured(self) -> None:
        plan, note = self.plan, self.state.note
        facts = facts_of(plan)
        if not self.request.model_folder:
            note("Weights are random: memory does not depend on them.")
            if facts.policy.experts:
                note(
                    "Random routers send tokens evenly to all experts; trained ones do not, and "
                    "the busiest expert then holds more and takes longer."
                )
        if plan.sharding == "fsdp2" and ranks() == 1:
            note(RANK_NOTE.format(world=plan.gpus - plan.rollout_gpus))
        if plan.batch_shape == "padded" and self.request.lengths == "full":
            note("Rows are padded by one token: the mask is there, the rest is at the caps.")
        if plan.rollout == "hf" and plan.response_tokens > cadence.ALL:
            count = len(cadence.sampled_tokens(plan.response_tokens))
            note(f"{count} tokens of each response were decoded; the others' time lies between.")
        if self.request.snapshot and self.request.kind == "cpu":
            note("A CPU has no allocator snapshot; the file is a trace for ui.perfetto.dev.")

    def _choose(self, device: Device) -> tuple[int, ...] | None:
        """The numbers of layers to run: one, all of them, or two; None where nothing fits."""
        request, layers = self.request, self.full.layers
        if request.depths:
            wanted = tuple(sorted(set(request.depths)))
            if len(wanted) != 2 or wanted[-1] >= layers:
                raise CannotRun(
                    f"depths: give two different numbers of layers below the model's {layers}."
                )
            return wanted
        room = self._room()
        if request.truncate == "never" or room is None:
            return (layers,)
        full = self._needs(self.plan, self.full)
        if room.holds(full):
            return (layers,)
        if full.bytes > SHARE * room.bytes:
            self.state.note(
                f"The whole model needs {read_bytes(full.bytes)} by the dry run and "
                f"{read_bytes(room.bytes)} are there."
            )
        else:
            self.state.note(
                f"The whole model would take about {read_seconds(full.seconds)} here, and the "
                f"limit leaves {read_seconds(room.seconds)}."
            )
        pattern = repeated(self.plan, configs_of(self.plan))
        if pattern is None:
            self.state.note("The models' layers do not repeat alike, so none can be left out.")
            return None
        return two_depths(pattern, full, self._shallow_needs, room)

    def _room(self) -> Room | None:
        if self.capacity is None:
            return None
        spent = time.perf_counter() - self.start
        size = self.capacity
        if self.request.kind == "cuda" and not self.request.cap_bytes:
            size -= self.others_bytes
        return Room(bytes=size, seconds=max(self.request.limit_seconds - spent, 1.0))

    def _shallow_needs(self, layers: int) -> Needs:
        plan = with_layers(self.plan, layers)
        return self._needs(plan, self._predicted(plan))

    def _predicted(self, plan: Plan) -> Depth:
        """The dry run of what the trial executes of a plan; asked once of each."""
        if plan not in self.dry_runs:
            depth, notes = predicted(plan, self.request.kind)
            self.state.note(*(note for note in notes if not note.startswith("Branches of the")))
            self.dry_runs[plan] = depth if self._engine_runs() else _without_engine(depth)
        return self.dry_runs[plan]

    def _needs(self, plan: Plan, depth: Depth) -> Needs:
        sizes = executed_bytes(depth.predicted, self.level).values()
        more = CONTEXT_BYTES if self.request.kind == "cuda" else 0
        flops = cadence.trial_flops(plan, self.request.warm_up + self.request.steps)
        rate = self._rate()
        return Needs(bytes=max(sizes, default=0) + more, seconds=flops / rate if rate else 0.0)

    def _rate(self) -> float | None:
        """FLOPs a second that small steps reach here at the least; None when nobody knows."""
        if self.request.kind == "cuda":
            peak = facts_of(self.plan).gpu.flops_per_second(self.plan.dtype)
            return None if peak is None else REACHED["cuda"] * peak
        return REACHED["cpu"] * processor_flops_per_second(DTYPES[self.plan.dtype])

    def _one(self, layers: int) -> Ran:
        """Measure the plan with so many layers."""
        whole = layers == self.full.layers
        plan = self.plan if whole else with_layers(self.plan, layers)
        depth = self.full
        if not whole:
            self.report("dry run", {"layers": layers})
            depth = self._predicted(plan)
        request = self.request
        choices = Choices(
            device=self.device_name,
            steps=request.steps,
            warm_up=request.warm_up,
            cap_bytes=request.cap_bytes,
            random_lengths=request.lengths == "random",
            model_folder=Path(request.model_folder) if request.model_folder else None,
            snapshot=Path(request.snapshot) if request.snapshot and rank() == 0 else None,
            onednn=self._needs_onednn(plan),
        )

        def told(name: str, more: Mapping[str, Any]) -> None:
            self.report(name, {"layers": layers, **more})

        link = to_query_string(plan)
        self.ran.append(Ran(plan=link, layers=layers, predicted=depth.predicted))
        read = measure(plan, choices, told)
        figures = self._of_all_ranks(plan, read)
        self.ran[-1] = self.ran[-1].model_copy(update={"measured": figures})
        self.report("known", self.known())
        return self.ran[-1]

    def _needs_onednn(self, plan: Plan) -> bool:
        """Whether half precision without oneDNN would take too long."""
        if self.request.kind == "cuda" or plan.dtype == "fp32":
            return False
        if cadence.trial_flops(plan, 1) < SMALL_FLOPS:
            return False
        self.state.note("The bytes have oneDNN's scratch among them, which a GPU does not have.")
        return True

    def _of_all_ranks(self, plan: Plan, read: Readings) -> FootprintFigures:
        own = figures_of_run(
            plan, read, warm_up=self.request.warm_up, others_bytes=self.others_bytes
        )
        said = everybody(own.model_dump(mode="json", by_alias=True))
        if len(said) == 1:
            return own
        self.state.note(f"Figures are the highest of {len(said)} processes.")
        return highest([from_data(one) for one in said])

    def _two(self, choice: tuple[int, ...]) -> FootprintFigures:
        runs = [self._one(layers) for layers in choice]
        self.state.found["extrapolated"] = True
        self.state.note(
            f"{choice[0]} and {choice[1]} of {self.full.layers} layers ran, at full width; the "
            "whole model's figures are led there from both, instant by instant."
        )
        depths = []
        for one in runs:
            depth = self._predicted(with_layers(self.plan, one.layers))
            depths.append(replace(depth, measured=one.measured))
        figures, notes = extrapolated(self.plan, depths[0], depths[1], self.full)
        self.state.note(*notes)
        return figures

    def _engine_runs(self) -> bool:
        return self.plan.rollout == "vllm-colocated" and not engine.missing(self.request.kind)

    def _with_engine(self, figures: FootprintFigures) -> FootprintFigures:
        if self.plan.rollout != "vllm-colocated":
            return figures
        reason = engine.missing(self.request.kind)
        if reason:
            self.state.note(reason)
            return figures
        self.report("engine", {})
        found = engine.measure_engine(self.plan, self.device_name, self.request.model_folder)
        self.state.note(*found.notes)
        return figures.model_copy(update={"phases": (*found.phases, *figures.phases)})

    def _out_of_memory(self, ended: MemoryEnded) -> TrialResult:
        ran = self.ran[-1]
        assert ran.predicted is not None
        said = executed_bytes(ran.predicted, self.level)
        need = said.get(ended.phase, max(said.values(), default=0))
        capacity = ended.capacity_bytes or self.capacity
        asked = "memory" if ended.asked_bytes is None else read_bytes(ended.asked_bytes)
        live = "" if ended.live_bytes is None else f" with {read_bytes(ended.live_bytes)} in use"
        limit = "" if capacity is None else f" of {read_bytes(capacity)}"
        found = self._fitting(smaller(self.request.planned()), capacity)
        self.state.found["out_of_memory"] = OutOfMemory(
            phase=ended.phase,
            asked_bytes=ended.asked_bytes,
            live_bytes=ended.live_bytes,
            capacity_bytes=capacity,
            would_fit=None if found is None else to_query_string(found[0]),
            would_fit_words="" if found is None else found[1],
            predicted=PredictedPeak(
                bytes=need, out_of_memory=capacity is not None and need > capacity
            ),
        )
        return self._result(
            "out of memory", f"Out of memory in {ended.phase}: it asked for {asked}{live}{limit}."
        )

    def _will_not_fit(self) -> TrialResult:
        needs = self._needs(self.plan, self.full)
        least = self.full.layers
        pattern = repeated(self.plan, configs_of(self.plan))
        if pattern is not None:
            least = min(least, pattern.lead + 2 * pattern.period)
        found = self._fitting(smaller(self.request.planned()), self.capacity, layers=least)
        phase = max(
            executed_bytes(self.full.predicted, self.level).items(),
            key=lambda pair: pair[1],
            default=("the step", 0),
        )
        self.state.found["out_of_memory"] = OutOfMemory(
            phase=phase[0],
            capacity_bytes=self.capacity,
            would_fit=None if found is None else to_query_string(found[0]),
            would_fit_words="" if found is None else found[1],
            predicted=PredictedPeak(
                bytes=needs.bytes,
                out_of_memory=self.capacity is not None and needs.bytes > self.capacity,
            ),
        )
        smallest = f" The smallest trial that would: {found[1]}." if found else ""
        room = self._room()
        assert room is not None
        return self._result(
            "will not fit",
            f"It will not fit here, even with {least} layers: {read_bytes(room.bytes)} and "
            f"{read_seconds(room.seconds)} are there.{smallest}",
        )

    def _fitting(
        self,
        plans: Iterator[tuple[Plan, str]],
        capacity: int | None,
        layers: int | None = None,
    ) -> tuple[Plan, str] | None:
        """The first of smaller plans that the dry run expects to fit, and the change in words."""
        if capacity is None:
            return None
        for tried, (plan, words) in enumerate(plans):
            spent = time.perf_counter() - self.start
            if tried >= TRIED or spent > 0.9 * self.request.limit_seconds:
                return None
            try:
                running, _ = executed(plan)
                if layers is not None and layers < layers_of(running):
                    running = with_layers(running, layers)
                needs = self._needs(running, self._predicted(running))
            except CannotRun:
                continue
            room = Room(bytes=capacity, seconds=self.request.limit_seconds)
            if (layers is None and needs.bytes <= 0.95 * capacity) or (
                layers is not None and room.holds(needs)
            ):
                return plan, words
        return None

    def known(self) -> dict[str, Any]:
        """A result's fields so far, for whoever has to finish it in this process's place."""
        return {**self.state.found, "ran": tuple(self.ran), "notes": tuple(self.state.notes)}

    def _result(self, status: str, reason: str) -> TrialResult:
        return TrialResult(
            **{
                **self.known(),
                "status": status,
                "reason": reason,
                "seconds": time.perf_counter() - self.start,
            }
        )


def _without_engine(depth: Depth) -> Depth:
    """The dry run's figures less what an engine holds that the trial does not run."""
    phases = []
    for phase in depth.predicted.phases:
        size = sum(t.bytes for t in phase.terms if t.category == "engine" and not t.host)
        if size and phase.device_bytes is not None:
            terms = tuple(term for term in phase.terms if term.category != "engine")
            less = phase.device_bytes - size
            phase = phase.model_copy(update={"terms": terms, "device_bytes": less})
        phases.append(phase)
    figures = depth.predicted.model_copy(update={"phases": tuple(phases)})
    return replace(depth, predicted=figures)
