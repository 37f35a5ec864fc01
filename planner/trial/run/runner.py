"""A whole trial in one process: dry run, choice of depth, steps, result. Imports torch.

Every way it can end is a result: memory that ends is one, and so is a plan that nobody can run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from planner.dryrun.ask.request import configs_of
from planner.estimate import estimate
from planner.jobs.strict import shown
from planner.plan import FIELDS, Plan, try_plan
from planner.plan.facts import facts_of
from planner.plan.frameworks import code_of, ours, own_step
from planner.plan.query import to_query_string
from planner.trial.ask.endings import CannotRun, MemoryEnded
from planner.trial.ask.footprints import FootprintFigures, figures_of, from_data
from planner.trial.ask.kernels import with_kernels_here
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.result import Device, OutOfMemory, Ran, TrialResult
from planner.trial.ask.variants import executed, with_layers
from planner.trial.run import cadence, rollout, shortfall
from planner.trial.run.device import capacity_bytes, device_of, environment, used_by_others
from planner.trial.run.execution import Execution, Readings, Report
from planner.trial.run.extrapolation import Depth, extrapolated
from planner.trial.run.process_group import RANK_NOTE, everybody, joined, rank, ranks
from planner.trial.run.sizing import Sizing
from planner.trial.run.weights import check_folder
from planner.trial.run.whole_step import censored, figures_of_run, highest, judged
from planner.values.sharding import sharding_of

SMALL_FLOPS = 5e9
"""A step of so much takes seconds even without oneDNN, whose scratch then is not in the bytes."""


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
        self.found = request.asked(identifier)
        """What is known so far; every key is a field of a result."""
        self.notes: list[str] = []
        self.ran: list[Ran] = []
        self.others_bytes = 0

    def note(self, *sentences: str) -> None:
        """Put sentences among the result's notes, each once."""
        fresh = (shown(one, 2000) for one in sentences if one not in self.notes)
        self.notes += dict.fromkeys(fresh)

    def run(self) -> TrialResult:
        try:
            return self._run()
        except (CannotRun, ValueError, NotImplementedError, TypeError) as error:
            sentence = " ".join(str(error).split())
            if sentence.partition(":")[0] not in FIELDS and not isinstance(error, CannotRun):
                sentence = f"{type(error).__name__}: {sentence}"
            return self._result("failed", shown(sentence, 2000))

    def _run(self) -> TrialResult:
        request = self.request
        if request.kind == "cuda":
            others = used_by_others(self.device_name)
            self.others_bytes = others or 0
            if others is None:
                self.note(
                    "nvidia-smi did not answer: memory of other processes counts as the trial's."
                )
        device = device_of(self.device_name, request.cap_bytes)
        if request.kind == "cuda":
            torch.cuda.set_device(self.device_name)
        self.found["device"] = device.model_copy(update={"processes": ranks()})
        self.found["environment"] = environment(self.device_name)
        plan, notes = with_kernels_here(self._here(request.planned(), device), request.kind)
        self.note(*notes)
        if request.model_folder:
            check_folder(Path(request.model_folder), configs_of(plan)["policy"])
        self._sized(plan, device)
        self._say_what_is_not_measured()
        self.found["predicted"] = self.sizing.full.predicted
        self.found["estimated"] = figures_of(estimate(plan))
        self.report("known", self.known())
        with joined(self.device_name):
            return self._measured(device)

    def _sized(self, plan: Plan, device: Device, refused: str = "") -> None:
        """The plan that is executed, by its dry run; ours where another's code stops in one."""
        self.plan, notes = executed(plan, refused)
        self.report("dry run", {})
        try:
            self.sizing = Sizing(
                self.request,
                self.plan,
                capacity_bytes=capacity_bytes(device),
                others_bytes=self.others_bytes,
                start=self.start,
                note=self.note,
            )
        except CannotRun as stopped:
            if ours(code_of(self.plan.framework)):
                raise
            self._sized(plan, device, str(stopped))
            return
        self.note(*notes)

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
        if not ours(code_of(self.plan.framework)):
            own = own_step(self.plan.framework)
            names = ", ".join(phase.name for phase in figures.phases)
            self.note(f"Phases that {own.NAME}'s own code ran: {names}.")
        figures = self._with_engine(figures)
        # On a processor a cap plays a card; how much memory the machine has says nothing of it.
        capacity = self.sizing.capacity if device.kind == "cuda" else device.cap_bytes
        where = "the cap" if device.cap_bytes else device.name
        self.found["measured"] = judged(figures, capacity, where)
        runs = (one.measured for one in self.ran)
        self.found["censored"] = any(censored(one) for one in runs if one is not None)
        if self.found["censored"]:
            self.note(
                "The allocator had to free its cache and try again: the peaks are those of a full "
                "GPU and say nothing about a GPU with more memory."
            )
        return self._result("completed", "")

    def _here(self, plan: Plan, device: Device) -> Plan:
        """The plan on the trial's own card, which decides branches and the budget."""
        if device.kind == "cpu":
            self.note(
                "The trial ran on a CPU: its bytes are those of the tensors that a GPU would hold, "
                "with CPU kernels; its seconds say nothing about a GPU."
            )
            return plan
        if device.gpu == plan.gpu:
            return plan
        if not device.gpu:
            self.note(
                f"The catalog has no row for {device.name}: the predictions are for {plan.gpu}."
            )
            return plan
        found, _ = try_plan({**plan.model_dump(), "gpu": device.gpu, "gpu_bytes": 0})
        self.note(
            f"The plan is not valid for {device.gpu}: the predictions are for {plan.gpu}."
            if found is None
            else f"The plan names {plan.gpu}: trial and predictions are for {device.gpu}."
        )
        return found or plan

    def _say_what_is_not_measured(self) -> None:
        plan, note = self.plan, self.note
        facts = facts_of(plan)
        if not self.request.model_folder:
            note("Weights are random: memory does not depend on them.")
            if facts.policy.experts:
                note(
                    "Random routers send tokens evenly to all experts. Trained routers do not: "
                    "their busiest expert needs more memory and time."
                )
        world, how = plan.gpus - plan.rollout_gpus, sharding_of(plan)
        spread = how.fsdp == 2 or (how.ddp and not ours(code_of(plan.framework)))
        if ranks() == 1 and spread and world > 1:
            note(RANK_NOTE.format(world=world))
        if plan.batch_shape == "padded" and self.request.lengths == "full":
            note("Rows are padded by one token, so a mask exists; otherwise rows are at the caps.")
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
        snapshot = self.request.snapshot if rank() == 0 else ""
        onednn = self._needs_onednn(plan)

        def told(name: str, more: Mapping[str, Any]) -> None:
            self.report(name, {"layers": layers, **more})

        link = to_query_string(plan)
        self.ran.append(Ran(plan=link, layers=layers, predicted=depth.predicted))
        execution = Execution(
            plan,
            self.request,
            self.device_name,
            told,
            snapshot=Path(snapshot) if snapshot else None,
            onednn=onednn,
        )
        figures = self._of_all_ranks(plan, execution.run())
        self.note(*execution.notes)
        self.ran[-1] = self.ran[-1].model_copy(update={"measured": figures})
        self.report("known", self.known())
        return self.ran[-1]

    def _needs_onednn(self, plan: Plan) -> bool:
        """Whether half precision without oneDNN would take too long."""
        if self.request.kind == "cuda" or plan.dtype == "fp32":
            return False
        if cadence.trial_flops(plan, 1) < SMALL_FLOPS:
            return False
        self.note("The bytes include oneDNN's scratch memory, which a GPU does not have.")
        return True

    def _of_all_ranks(self, plan: Plan, read: Readings) -> FootprintFigures:
        own = figures_of_run(
            plan, read, warm_up=self.request.warm_up, others_bytes=self.others_bytes
        )
        said = everybody(own.model_dump(mode="json", by_alias=True))
        if len(said) == 1:
            return own
        self.note(f"Figures are the highest of {len(said)} processes.")
        return highest([from_data(one) for one in said])

    def _two(self, choice: tuple[int, ...]) -> FootprintFigures:
        low, high = (self._depth(self._one(layers)) for layers in choice)
        self.found["extrapolated"] = True
        full = self.sizing.full
        self.note(
            f"{choice[0]} and {choice[1]} of {full.layers} layers ran, at full width; the "
            "whole model's figures are led there from both, instant by instant."
        )
        figures, notes = extrapolated(self.plan, low, high, full)
        self.note(*notes)
        return figures

    def _depth(self, ran: Ran) -> Depth:
        depth = self.sizing.predicted(with_layers(self.plan, ran.layers))
        return replace(depth, measured=ran.measured)

    def _with_engine(self, figures: FootprintFigures) -> FootprintFigures:
        if self.plan.rollout != "vllm-colocated":
            return figures
        reason = rollout.missing(self.request.kind)
        if reason:
            self.note(reason)
            return figures
        self.report("engine", {})
        found = rollout.measure_engine(self.plan, self.device_name, self.request.model_folder)
        self.note(*found.notes)
        return figures.model_copy(update={"phases": (*found.phases, *figures.phases)})

    def known(self) -> dict[str, Any]:
        """A result's fields so far, for whoever has to finish it in this process's place."""
        return {**self.found, "ran": tuple(self.ran), "notes": tuple(self.notes)}

    def _short(self, status: str, part: OutOfMemory, reason: str) -> TrialResult:
        self.found["out_of_memory"] = part
        return self._result(status, reason)

    def _result(self, status: str, reason: str) -> TrialResult:
        last = {"status": status, "reason": reason, "seconds": time.perf_counter() - self.start}
        return TrialResult(**{**self.known(), **last})
