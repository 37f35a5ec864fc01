"""The dry run of what a trial runs, on the trial's own device. Imports torch.

On a card it takes the card's branches and the simulated allocator; on a CPU the CPU's branches,
with host and device in one memory, as they are there.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import partial

from planner.background import Refused
from planner.dryrun.ask import store
from planner.dryrun.ask.answer import answer
from planner.dryrun.ask.request import capacity_of, configs_of, key_of
from planner.dryrun.logs import curve
from planner.dryrun.logs.curve import Peak
from planner.dryrun.logs.log import Log
from planner.dryrun.run import worker
from planner.dryrun.run.execute import dry_run
from planner.jobs.strict import shown
from planner.plan import Plan
from planner.plan.frameworks import code_of, framework_named, ours
from planner.trial.ask.endings import CannotRun
from planner.trial.ask.footprints import FootprintFigures, PhaseFigures, TermFigures, figures_of
from planner.trial.ask.variants import layers_of
from planner.trial.run.extrapolation import Depth

LAYER = re.compile(r"\.(\d+)(?=\.|$)")


def predicted(plan: Plan, kind: str) -> tuple[Depth, tuple[str, ...]]:
    """The dry run of a plan and its notes.

    Args:
        plan: what a trial would execute, of any depth.
        kind: ``cpu`` or ``cuda``: whose branches to take.

    Raises:
        CannotRun: with a sentence, for what the step has no code for.
    """
    return on_cpu(plan) if kind == "cpu" else on_card(plan)


def on_card(plan: Plan) -> tuple[Depth, tuple[str, ...]]:
    """By the worker of dry runs itself, and from its store when it was asked before."""
    key = key_of(plan, full_depth=False)
    found = store.load(key)
    if found is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asked = {"plan": plan.model_dump(), "capacity_bytes": capacity_of(plan)}
            try:
                found = worker.execute(asked)
            except Refused as error:
                raise CannotRun(str(error)) from None
        if "refused" in found:
            raise CannotRun(found["refused"])
        store.save(key, found)
    dry = answer(plan, found)
    layers = layers_of(plan)
    instants = {
        phase["phase"]: instant(phase["op"], phase["module"], layers) for phase in found["phases"]
    }
    return Depth(layers=layers, predicted=figures_of(dry.footprint), instants=instants), dry.notes


def on_cpu(plan: Plan) -> tuple[Depth, tuple[str, ...]]:
    """With the branches of a CPU: figures of live bytes, without an allocator's rounding."""
    code = code_of(plan.framework)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            log = dry_run(plan, configs_of(plan), on="cpu", code=code)
        except (ValueError, NotImplementedError) as error:  # before RuntimeError, its parent
            raise CannotRun(" ".join(str(error).split())) from None
        except Exception as error:  # whatever another's code raises
            if not ours(code):
                ran = framework_named(plan.framework).label
                raise CannotRun(worker.refused_by_theirs(ran, error)) from None
            if not isinstance(error, RuntimeError):
                raise
            raise CannotRun(worker.refused_by_torch(error)) from None
    found = curve.peaks(in_one_memory(log))
    layers = layers_of(plan)
    instants = {peak.phase: instant(peak.op, peak.module, layers) for peak in found}
    figures = _figures(plan, found)
    return Depth(layers=layers, predicted=figures, instants=instants), tuple(log.notes)


def in_one_memory(log: Log) -> Log:
    """The same log with everything on the device."""
    made = {key: value._replace(host=False) for key, value in log.made.items()}
    return Log(log.events, made, log.names, log.notes)


def _figures(plan: Plan, peaks: Sequence[Peak]) -> FootprintFigures:
    worst = max(peaks, key=lambda peak: peak.total_bytes)
    return FootprintFigures(
        source="dry run",
        plan=plan.model_dump(),
        requested_bytes=worst.total_bytes,
        worst_phase=worst.phase,
        worst_rank="trainer",
        phases=tuple(_phase(peak) for peak in peaks),
    )


def _phase(peak: Peak) -> PhaseFigures:
    term = partial(TermFigures, source="dry run with a CPU's branches")
    terms = [
        term(
            name=f"{category} in the dry run",
            role=role or "process",
            category=category,
            bytes=size,
            formula="sum of live storages",
        )
        for (role, category), size in sorted(peak.shares.items(), key=lambda pair: -pair[1])
    ]
    if peak.scratch_bytes:
        name, size = f"scratch of {peak.scratch_op}", peak.scratch_bytes
        terms.append(term(name=name, role="process", category="buffers", bytes=size))
    return PhaseFigures(
        name=peak.phase,
        instant=shown(f"{peak.op} in {peak.module or 'the step'}"),
        source="dry run",
        requested_bytes=peak.total_bytes,
        terms=tuple(terms),
    )


def instant(op: str, module: str, layers: int) -> str:
    """An instant's name at any depth: layers are counted from the end they are nearer to."""

    def place(found: re.Match[str]) -> str:
        index = int(found[1])
        if index >= layers:
            return found[0]
        near = index < layers - 1 - index
        return f".+{index}" if near else f".-{layers - 1 - index}"

    return f"{op} in {LAYER.sub(place, module, count=1)}"


def executed_bytes(figures: FootprintFigures, level: str) -> Mapping[str, int]:
    """Peaks of the phases that a dry run executed, by name."""
    return {
        phase.name: size
        for phase in figures.phases
        if phase.source == "dry run" and (size := getattr(phase, level)) is not None
    }
