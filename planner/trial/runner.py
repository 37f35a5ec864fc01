"""A whole trial in one process: dry run, choice of depth, steps, result. Imports torch.

Every way it can end is a result: memory that ends is one, and so is a plan that nobody can run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from planner.dryrun.ask.request import configs_of
from planner.estimate import estimate
from planner.plan import FIELDS, Plan, try_plan
from planner.plan.facts import facts_of
from planner.plan.link import to_query_string
from planner.trial import cadence, engine, shortfall
from planner.trial.device import (
    capacity_bytes,
    device_of,
    environment,
    used_by_others,
)
from planner.trial.endings import CannotRun, MemoryEnded
from planner.trial.executed import executed, with_layers
from planner.trial.extrapolation import extrapolated
from planner.trial.figures import FootprintFigures, figures_of, from_data
from planner.trial.measure import Choices, Readings, Report, measure
from planner.trial.measured import censored, figures_of_run, highest, judged
from planner.trial.request import TrialRequest
from planner.trial.result import Device, OutOfMemory, Ran, TrialResult, now
from planner.trial.sizing import Sizing
from planner.trial.strict import shown
from planner.trial.weights import check_folder
from planner.trial.world import RANK_NOTE, everybody, joined, rank, ranks

SMALL_FLOPS = 5e9
"""A step of so much takes seconds even without oneDNN, whose scratch then is not in the bytes."""


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
        self.sizing = Sizing(
            request,
            self.plan,
            capacity_bytes=capacity_bytes(device),
            others_bytes=self.others_bytes,
            start=self.start,
            note=state.note,
        )
        state.found["predicted"] = self.sizing.full.predicted
        state.found["estimated"] = figures_of(estimate(plan))
        self.report("known", self.known())
        with joined(self.device_name):
            return self._measured(device)

    def _measured(self, device: Device) -> TrialResult:
        choice = self.sizing.choose()
        if choice is None:
            return self._short("will not fit", *shortfall.will_not_fit(self.sizing))
        try:
            if len(choice) == 1:
                figures = self._one(choice[0]).measured
                assert figures is not None
            else:
                figures = self._two(choice)
        except MemoryEnded as ended:
            said = shortfall.out_of_memory(self.sizing, ended, self.ran[-1])
            return self._short("out of memory", *said)
        figures = self._with_engine(figures)
        where = "the cap" if device.cap_bytes else device.name
        measured = judged(
            figures,
            # On a processor a cap plays a card; how much memory the machine has says nothing of it.
            self.sizing.capacity if device.kind == "cuda" else device.cap_bytes,
            where,
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

    def _one(self, layers: int) -> Ran:
        """Measure the plan with so many layers."""
        whole = layers == self.sizing.full.layers
        plan = self.plan if whole else with_layers(self.plan, layers)
        depth = self.sizing.full
        if not whole:
            self.report("dry run", {"layers": layers})
            depth = self.sizing.predicted(plan)
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
        full = self.sizing.full
        self.state.note(
            f"{choice[0]} and {choice[1]} of {full.layers} layers ran, at full width; the "
            "whole model's figures are led there from both, instant by instant."
        )
        depths = []
        for one in runs:
            depth = self.sizing.predicted(with_layers(self.plan, one.layers))
            depths.append(replace(depth, measured=one.measured))
        figures, notes = extrapolated(self.plan, depths[0], depths[1], full)
        self.state.note(*notes)
        return figures

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

    def known(self) -> dict[str, Any]:
        """A result's fields so far, for whoever has to finish it in this process's place."""
        return {**self.state.found, "ran": tuple(self.ran), "notes": tuple(self.state.notes)}

    def _short(self, status: str, part: OutOfMemory, reason: str) -> TrialResult:
        self.state.found["out_of_memory"] = part
        return self._result(status, reason)

    def _result(self, status: str, reason: str) -> TrialResult:
        return TrialResult(
            **{
                **self.known(),
                "status": status,
                "reason": reason,
                "seconds": time.perf_counter() - self.start,
            }
        )
