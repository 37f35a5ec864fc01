"""A log as the result of a trial, which calibration and history take like one that ran here."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from planner.estimate import estimate
from planner.footprint import Footprint
from planner.importer.logs.beside import beside, timed
from planner.importer.logs.measured import Measured
from planner.plan import Plan
from planner.plan.lengths import at_caps
from planner.plan.query import to_query_string
from planner.trial.ask.footprints import FootprintFigures, PhaseFigures, figures_of
from planner.trial.ask.result import Device, Environment, TrialResult, now, read_result

NOTE = "Read from a log: nothing ran here, and versions are the plan's."
ALLOCATOR = ("requested_bytes", "allocated_bytes", "reserved_bytes")


def as_trial(measured: Sequence[Measured], plan: Plan) -> TrialResult:
    """The trial that a run of this plan was; keep it with :meth:`History.add`, or calibrate by it.

    A trial of this planner is itself, whatever the plan.

    A peak over all phases is that of the phase which makes it by the estimate; seconds of several
    phases together are divided among them as they are estimated. Peaks that count a
    colocated engine's pages are left out with one. Seconds at the plan's caps are
    left out of a calibration, since a run's responses are shorter.

    Raises:
        ValueError: when the logs have no figure that a phase of the plan can be calibrated by.
    """
    for one in measured:
        if one.record:
            return read_result(one.record)
    footprint = estimate(plan)
    phases = _phases(measured, footprint)
    if not phases:
        raise ValueError(
            "calibration: the log has no memory of training and no seconds by phase; give a log "
            "with perf/max_memory_allocated_gb, timing_s or torch's memory summary."
        )
    figures = FootprintFigures(source="trial", plan=plan.model_dump(), phases=phases)
    told = f"{plan.model_dump_json()}{figures.model_dump_json()}"
    step = next((one.value for of in measured for one in of.figures if one.words == STEP), 0.0)
    steps = max(one.steps for one in measured)
    return TrialResult(
        id=f"log-{hashlib.sha256(told.encode()).hexdigest()[:16]}",
        status="completed",
        created=now(),
        seconds=step * steps,
        plan=to_query_string(plan),
        device=Device(kind="cuda", name=plan.gpu, gpu="" if plan.gpu == "custom" else plan.gpu),
        environment=Environment(versions={"torch": plan.torch_version}),
        steps=steps,
        lengths="random" if at_caps(plan) else "full",
        censored=any(one.censored for one in measured),
        estimated=figures_of(footprint),
        measured=figures,
        notes=(NOTE, *(note for one in measured for note in one.notes)),
    )


STEP = "timing_s/step"


def _phases(measured: Sequence[Measured], footprint: Footprint) -> tuple[PhaseFigures, ...]:
    """What each of the plan's phases was measured to take."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    pooled = footprint.plan.rollout == "vllm-colocated"
    for log, one in ((each, one) for each in measured for one in beside(each, footprint)):
        figure, estimated = one.figure, one.estimated
        counts_pool = pooled and log.counts_engine and figure.quantity in ALLOCATOR
        if not estimated or figure.term or counts_pool:
            continue
        if figure.quantity == "seconds":
            for phase in timed(figure, footprint):
                if phase.seconds is not None:
                    found[phase.name]["seconds"] = figure.value * phase.seconds / estimated
        elif figure.quantity in ALLOCATOR or figure.quantity == "device_bytes":
            found[one.phase][figure.quantity] = round(figure.value)
    trainers = {one.name for one in footprint.phases if one.rank == "trainer"}
    return tuple(
        PhaseFigures.model_validate({"name": name, "source": "trial", **values})
        for name, values in found.items()
        if name in trainers
    )
