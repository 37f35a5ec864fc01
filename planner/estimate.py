"""Plan → footprint in closed form: no torch, no files, under 5 ms.

The phases come from the method's folder; this module adds terms up to the four totals
and judges them. The same code runs on a sweep's grid, where numbers are arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.cautions import cautions_of
from planner.cautions.assumptions import left_out
from planner.cautions.blockers import blockers
from planner.footprint import Footprint, Phase, Pool, StatedError, worst_of
from planner.formulas import allocator
from planner.formulas.growth import EXPERTS_LEFT, GROWN, bounded, most_growth
from planner.phases import engine
from planner.phases.baseline import resolved
from planner.phases.experts import experts_left
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene, scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of, obstacle
from planner.plan.methods import part
from planner.speeds import Speeds
from planner.term import Instant, Term
from planner.timing.done import done_of
from planner.timing.doubt import doubt_of, of_step
from planner.timing.phase import phase_terms, reference_cache
from planner.timing.source import seconds_source
from planner.timing.step import balance, of_phases
from planner.totals.levels import Adder, Totals
from planner.totals.limits import blocking, limits_of, of_the_rest, verdict_of
from planner.totals.peaks import Peak, above, peak_of
from planner.totals.segments import Reserved, in_process, reserved

UNMEASURED = StatedError(
    low=None,
    high=None,
    source="not yet measured on a GPU; docs/accuracy.md compares with published runs. "
    "Keep at least 10% free.",
)


def estimate(
    plan: Plan, speeds: Speeds | None = None, without: frozenset[str] = frozenset()
) -> Footprint:
    """The footprint of one plan.

    Args:
        plan: what to estimate.
        speeds: shares of the card's peaks that a benchmark measured, which its times then rest
            on; without them on those of the catalog.
        without: names of instants that do not count.

    Raises:
        ValueError: for a benchmark of another card or torch version, and for what a plan's own
            validation lets through and a formula refuses, naming the field.
    """
    why = obstacle(speeds, plan) if speeds is not None else ""
    if why:
        raise ValueError(why)
    facts = facts_of(plan, speeds)
    scene = scene_of(plan, facts)
    plans = phase_plans(scene)
    if without:
        plans = tuple(_less(phase, without) for phase in plans)
    phases = _phases(scene, plans)
    assumptions, faults, warnings, notes = cautions_of(scene, phases)
    source, step = seconds_source(facts.gpu), of_phases(plan.rollout_overlap, phases)
    every_step = tuple(term for phase in phases if phase.per_step for term in phase.times)
    published, sides = doubt_of(scene, times=every_step), balance(plan, phases)
    notes = (*notes, sides) if sides else notes
    if facts.gpu.speeds is not None:
        notes = (*notes, f"Times rest on {source}.")
    return Footprint(
        source="estimate",
        plan=plan,
        **_judgement(scene, phases, faults),
        budget_bytes=facts.budget_bytes,
        phases=phases,
        step_seconds=step,
        error=UNMEASURED,
        assumptions=assumptions,
        warnings=warnings,
        notes=notes,
        speeds=speeds,
        seconds_source=source,
        doubt=None if step is None else of_step(published, plan.rollout_overlap, step, plans),
        done=done_of(scene, plans),
        reference_cache=reference_cache(scene),
        pool=_pool(scene, phases),
    )


def _less(phase: PhasePlan, without: frozenset[str]) -> PhasePlan:
    instants = tuple(one for one in phase.instants if one.name not in without)
    return phase._replace(instants=instants)


def _pool(scene: Scene, phases: tuple[Phase, ...]) -> Pool | None:
    """What an engine takes by its share; None where nothing of the plan has one."""
    if not any(phase.pool_bytes for phase in phases):
        return None
    holds = int(engine.concurrent_sequences(scene))
    return Pool(share_bytes=int(engine.share_bytes(scene)), sequences=holds)


def judged(footprint: Footprint) -> Footprint:
    """The footprint with worst phase and verdict found anew, after its phases changed.

    A phase that measurements have shown to need more than is predicted is judged by that.
    """
    phases, scene = footprint.phases, scene_of(footprint.plan, facts_of(footprint.plan))
    faults = tuple(blockers(scene, phases))
    found = _judgement(scene, phases, faults, footprint.alloc_retries)
    return replace(footprint, **found, error=found["worst"].error or footprint.error)


def _judgement(
    scene: Scene, phases: tuple[Phase, ...], faults: tuple[str, ...], retries: int = 0
) -> dict[str, Any]:
    """What of a footprint follows from its phases: the worst of them, verdict and blockers.

    A plan of which a part is left out fits for certain nowhere; what is there may be too much.
    """
    limits = limits_of(scene, phases, retries)
    verdict = verdict_of(limits, faults, phases, retries)
    named = [name for name, _ in left_out(scene)]
    if named and verdict.word != "out of memory":
        verdict = of_the_rest(verdict, named)
    return {
        "worst": worst_of(phases),
        "verdict": verdict,
        "blockers": (*blocking(limits), *faults),
    }


def phase_plans(scene: Scene) -> tuple[PhasePlan, ...]:
    """The phases of the plan's method, from ``planner/methods/<method>/memory.py``."""
    return tuple(resolved(scene, phase) for phase in unresolved(scene))


def unresolved(scene: Scene) -> tuple[PhasePlan, ...]:
    """The same, with names for what stands at their instants."""
    phases: tuple[PhasePlan, ...] = part(scene.plan.method, "memory", "phases")(scene)
    return phases


def _phases(scene: Scene, plans: tuple[PhasePlan, ...]) -> tuple[Phase, ...]:
    adder = Adder(scene.plan.expandable_segments)
    sums = [[adder.totals(instant) for instant in phase.instants] for phase in plans]
    peaks = [_peak(phase, each) for phase, each in zip(plans, sums, strict=True)]
    trains = [in_process(phase.rank, phase.kind) for phase in plans]
    segments = reserved(scene.plan, trains, peaks, scene.facts.budget_bytes)
    growth = int(most_growth(scene.plan, [one.held for one in segments]))
    return tuple(
        _grown(scene, _phase(scene, *of), growth) if of[-1].held is not None else _phase(scene, *of)
        for of in zip(plans, sums, (peak.order for peak in peaks), segments, strict=True)
    )


def _peak(phase: PhasePlan, sums: list[Totals]) -> Peak:
    """The phase's peak; what is outside the allocator has its bounds in its own terms."""
    doubts = [above(instant) for instant in phase.instants]
    return peak_of(sums, doubts, [(0, 0, 0)] * len(sums), range(len(sums)))


def _grown(scene: Scene, phase: Phase, most: int) -> Phase:
    """The phase with upper bounds of what other lengths and routes leave in the cache."""
    card = scene.facts.budget_bytes
    for formula, of in ((GROWN, {"most": most}), (EXPERTS_LEFT, experts_left(scene))):
        if of and (term := bounded(formula, of, card, phase.high_bytes)).high:
            phase = replace(phase, terms=(*phase.terms, term))
    return phase


def _phase(
    scene: Scene, phase: PhasePlan, sums: list[Totals], peak: int, segments: Reserved
) -> Phase:
    """The phase at its ``peak``, the instant with the most requested bytes."""
    instant, own = phase.instants[peak], sums[peak]
    times = phase_terms(scene, phase)
    alive, reserved, inherited = instant.everything, segments.total.centre, segments.inherited
    idle = sum([term.bytes for term in alive if term.category == "allocator" and not term.host])
    extra = [
        allocator.ROUNDING("process", allocated=own.allocated, requested=own.requested),
        allocator.SEGMENT_SLACK("process", slack=own.slack - idle),
    ]
    if segments.needed != own.reserved:
        needed = {"needed": segments.needed, "own": own.reserved}
        extra.append(allocator.OTHER_INSTANT("process", **needed))
    if segments.held is not None:
        extra.append(segments.held)
    extra += _doubted(instant, segments.doubt)
    if inherited.centre or inherited.high:
        sizes = {"carried": segments.carried.centre, "own": segments.own.centre}
        between = inherited.low, inherited.high
        extra.append(allocator.CACHED("process", between=between, **sizes))
    return Phase(
        kind=phase.kind,
        role=phase.role,
        rank=phase.rank,
        instant=instant.name,
        terms=tuple([term for term in (*alive, *extra) if term.bytes or term.high]),
        requested_bytes=int(own.requested),
        allocated_bytes=int(own.allocated),
        reserved_bytes=int(reserved),
        device_bytes=int(reserved + own.outside),
        host_bytes=int(max([one.host for one in sums])),
        seconds=None if times is None else sum([term.seconds for term in times]),
        times=times or (),
        doubt=None if times is None else doubt_of(scene, phase.kind, times),
        per_step=phase.per_step,
        occasions=int(phase.occasions),
        executed=phase.executed,
        inherited_bytes=int(inherited.centre),
    )


def _doubted(instant: Instant, doubt: int) -> Iterator[Term]:
    """The upper bound of the phase's other instants, less what the peak's own terms state."""
    own = above(instant)
    if doubt or own:
        between = (0, int(doubt - own))
        yield allocator.DOUBTED("process", counted=0, most=doubt, own=own, between=between)
