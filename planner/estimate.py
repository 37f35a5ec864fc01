"""Plan → footprint in closed form: no torch, no files, under 5 ms.

The phases come from the method's folder; this module adds terms up to the four totals
and judges them. The same code runs on a sweep's grid, where numbers are arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Literal, cast

from planner.cautions import cautions_of
from planner.footprint import Footprint, Phase, Pool, StatedError, Verdict, training_of, worst_of
from planner.formulas import allocator
from planner.formulas.growth import GROWN, most_growth
from planner.methods import part
from planner.phases import engine
from planner.phases.baseline import resolved
from planner.phases.phase import PhasePlan
from planner.phases.reference_cache import reference_cache
from planner.phases.scene import Scene, scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.labels import subject
from planner.speeds import Speeds, obstacle
from planner.term import Instant, Term
from planner.timing.done import done_of
from planner.timing.doubt import doubt_of
from planner.timing.phase import phase_terms
from planner.timing.source import seconds_source
from planner.timing.step import balance, of_phases
from planner.totals.levels import Adder, Totals
from planner.totals.peaks import Peak, above, peak_of
from planner.totals.segments import Reserved, in_process, reserved
from planner.units import read_count, read_gib

MARGIN = 0.9
"""A plan fits up to this share of the budget; above it is tight."""

UNMEASURED = StatedError(
    low=None,
    high=None,
    source="not yet measured on a GPU; docs/accuracy.md compares with published runs. "
    "Keep at least 10% free.",
)


def estimate(plan: Plan, speeds: Speeds | None = None) -> Footprint:
    """The footprint of one plan.

    Args:
        plan: what to estimate.
        speeds: shares of the card's peaks that a benchmark measured, which its times then rest
            on; without them on those of the catalog.

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
    phases = _phases(scene, plans)
    worst = worst_of(phases)
    assumptions, blockers, warnings, notes = cautions_of(scene, phases)
    pool = _pool(scene, phases)
    source, step = seconds_source(facts.gpu), of_phases(plan.rollout_overlap, phases)
    every_step = tuple(term for phase in phases if phase.per_step for term in phase.times)
    sides = balance(plan, phases)
    notes = (*notes, sides) if sides else notes
    if facts.gpu.speeds is not None:
        notes = (*notes, f"Times rest on {source}.")
    return Footprint(
        source="estimate",
        plan=plan,
        verdict=_verdict(scene, phases, worst, blockers, pool),
        budget_bytes=facts.budget_bytes,
        phases=phases,
        worst=worst,
        step_seconds=step,
        error=UNMEASURED,
        assumptions=assumptions,
        warnings=warnings,
        blockers=blockers,
        notes=notes,
        speeds=speeds,
        seconds_source=source,
        doubt=None if step is None else doubt_of(scene, times=every_step),
        done=done_of(scene, plans),
        reference_cache=reference_cache(scene),
        pool=pool,
    )


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
    worst = worst_of(footprint.phases)
    scene = scene_of(footprint.plan, facts_of(footprint.plan))
    verdict = _verdict(scene, footprint.phases, worst, footprint.blockers, footprint.pool)
    verdict = _after_retries(verdict, footprint.alloc_retries)
    return replace(footprint, worst=worst, verdict=verdict, error=worst.error or footprint.error)


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
        _grown(scene, _phase(scene, *of), growth if of[-1].held is not None else 0)
        for of in zip(plans, sums, (peak.order for peak in peaks), segments, strict=True)
    )


def _peak(phase: PhasePlan, sums: list[Totals]) -> Peak:
    """The phase's peak; what is outside the allocator has its bounds in its own terms."""
    doubts = [above(instant) for instant in phase.instants]
    return peak_of(sums, doubts, [(0, 0)] * len(sums), range(len(sums)))


def _grown(scene: Scene, phase: Phase, most: int) -> Phase:
    """The phase with an upper bound of what steps of other lengths leave in the cache."""
    if not most:
        return phase
    card, reached = scene.facts.budget_bytes, phase.high_bytes
    high = int(GROWN.value(counted=1, most=most, card=card, reached=reached))
    if not high:
        return phase
    term = GROWN("process", counted=0, most=most, card=card, reached=reached, between=(0, high))
    return replace(phase, terms=(*phase.terms, term))


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


def word_of(device_bytes: int, high_bytes: int, budget_bytes: int, blocked: bool = False) -> str:
    """The verdict's word for a number of bytes and what it may be at most."""
    if blocked or device_bytes > budget_bytes:
        return "out of memory"
    room = device_bytes <= MARGIN * budget_bytes and high_bytes <= budget_bytes
    return "fits" if room else "tight"


def _verdict(
    scene: Scene,
    phases: tuple[Phase, ...],
    worst: Phase,
    blockers: tuple[str, ...],
    pool: Pool | None,
) -> Verdict:
    """Judged by the most device bytes of any phase; named after the phase that makes them."""
    facts, plan = scene.facts, scene.plan
    device_bytes = max(phase.device_bytes for phase in phases)
    doubted = max(phases, key=attrgetter("most_bytes"))
    word = cast(
        "Literal['fits', 'tight', 'out of memory']",
        word_of(device_bytes, doubted.most_bytes, facts.budget_bytes, bool(blockers)),
    )
    lead = {"fits": "Fits on", "tight": "Tight on", "out of memory": "Out of memory on"}[word]
    where = f"{plan.gpus} × {facts.gpu.name}: {subject(plan)}"
    sentence = (
        f"{lead} {where}, {read_gib(device_bytes)} of "
        f"{read_gib(facts.budget_bytes)} GiB, worst phase: {worst.name}"
    )
    if word == "tight" and doubted.most_bytes > facts.budget_bytes:
        sentence += f"; {doubted.name} may need {read_gib(doubted.most_bytes)} GiB"
    if pool is not None:
        sentence += f"; {_chosen_and_needed(phases, worst, pool)}"
    if blockers:
        why = blockers[0]
        sentence = f"Does not run on {where}. {why[0].upper()}{why[1:]}"
    return Verdict(word=word, sentence=sentence)


def _after_retries(verdict: Verdict, times: int) -> Verdict:
    """A step that fits only because the allocator asks twice is tight.

    Each time it waits for the card and asks the driver anew, and the next larger batch may find
    nothing left to give back.
    """
    if not times or verdict.word == "out of memory":
        return verdict
    lead, rest = verdict.sentence.split(" on ", 1)
    why = f"the allocator gives cached memory back {read_count(times, 'time')} a step to fit"
    sentence = f"{'Tight' if lead == 'Fits' else lead} on {rest}; {why}"
    return Verdict(word="tight", sentence=sentence)


def _chosen_and_needed(phases: tuple[Phase, ...], worst: Phase, pool: Pool) -> str:
    """What an engine is given beside what training needs, which the peak may not show."""
    training = training_of(phases)
    beside = any(phase.pool_bytes for phase in phases if phase.rank == "trainer")
    own = "" if beside else " of GPUs of its own"
    needs, needed = "", training.training_bytes
    if needed != worst.device_bytes:
        needs = f"training needs {read_gib(needed)} GiB in {training.name}; "
    return (
        f"{needs}the engine takes {read_gib(pool.share_bytes)} GiB by its share{own} and holds "
        f"{read_count(pool.sequences, 'whole sequence')}"
    )
