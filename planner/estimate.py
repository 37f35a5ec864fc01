"""Plan → footprint in closed form: no torch, no files, under 5 ms.

The phases come from the method's folder; this module adds terms up to the four totals
and judges them. The same code runs on a sweep's grid, where numbers are arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, cast

from planner.catalog.efficiencies import seconds_source
from planner.cautions import cautions_of
from planner.footprint import Footprint, Instant, Phase, StatedError, Term, Verdict, worst_of
from planner.formulas import allocator
from planner.levels import Adder, Totals, cached_before
from planner.methods import part
from planner.phases.phase import PhasePlan
from planner.phases.scene import Scene, scene_of
from planner.phases.timing import phase_seconds
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.speeds import Speeds, obstacle
from planner.units import read_gib

MARGIN = 0.9
"""A plan fits up to this share of the budget; above it is tight."""

UNMEASURED = StatedError(
    low=None,
    high=None,
    source="not yet measured on a GPU; docs/accuracy.md compares with published runs. "
    "Keep at least 10 % free.",
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
    blockers, warnings, notes = cautions_of(scene, phases)
    source = seconds_source(facts.gpu)
    if facts.gpu.speeds is not None:
        notes = (*notes, f"Times rest on {source}.")
    return Footprint(
        source="estimate",
        plan=plan,
        verdict=_verdict(scene, phases, worst, blockers),
        budget_bytes=facts.budget_bytes,
        phases=phases,
        worst=worst,
        step_seconds=step_seconds(phases),
        error=UNMEASURED,
        warnings=warnings,
        blockers=blockers,
        notes=notes,
        speeds=speeds,
        seconds_source=source,
    )


def judged(footprint: Footprint) -> Footprint:
    """The footprint with worst phase and verdict found anew, after its phases changed.

    A phase that measurements have shown to need more than is predicted is judged by that.
    """
    worst = worst_of(footprint.phases)
    scene = scene_of(footprint.plan, facts_of(footprint.plan))
    verdict = _verdict(scene, footprint.phases, worst, footprint.blockers)
    doubted = max(footprint.phases, key=lambda phase: phase.most_bytes)
    if verdict.word == "fits" and doubted.most_bytes > footprint.budget_bytes:
        verdict = Verdict(
            word="tight",
            sentence=f"Tight{verdict.sentence.removeprefix('Fits')}; by what was measured, "
            f"{doubted.name} may need {read_gib(doubted.most_bytes)} GiB",
        )
    return replace(footprint, worst=worst, verdict=verdict, error=worst.error or footprint.error)


def phase_plans(scene: Scene) -> tuple[PhasePlan, ...]:
    """The phases of the plan's method, from ``planner/methods/<method>/memory.py``."""
    phases: tuple[PhasePlan, ...] = part(scene.plan.method, "memory", "phases")(scene)
    return phases


def _phases(scene: Scene, plans: tuple[PhasePlan, ...]) -> tuple[Phase, ...]:
    adder = Adder(scene.plan.expandable_segments)
    peaks = [_peak(phase, adder) for phase in plans]
    carried = cached_before(plans, [peak.reserved for peak in peaks], scene.plan.empty_cache)
    return tuple(
        _phase(scene, phase, peak, carried_bytes)
        for phase, peak, carried_bytes in zip(plans, peaks, carried, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Peak:
    """The instant with the most requested bytes; ``reserved`` and ``host`` of all instants."""

    instant: Instant
    totals: Totals
    reserved: int
    host: int


def _peak(phase: PhasePlan, adder: Adder) -> _Peak:
    judged = [(instant, adder.totals(instant)) for instant in phase.instants]
    instant, sums = max(judged, key=lambda pair: pair[1].peak)
    device = max(int(sums.device) for _, sums in judged)
    host = max(int(sums.host) for _, sums in judged)
    return _Peak(instant, sums, device - int(sums.outside), host)


def _phase(scene: Scene, phase: PhasePlan, peak: _Peak, carried: int) -> Phase:
    instant, sums = peak.instant, peak.totals
    reserved = max(peak.reserved, carried)
    extra = [
        allocator.ROUNDING("process", allocated=sums.allocated, requested=sums.requested),
        allocator.SEGMENT_SLACK(
            "process", slack=sums.slack - sum(t.bytes for t in instant.everything if is_idle(t))
        ),
        allocator.OTHER_INSTANT("process", needed=peak.reserved, own=sums.reserved),
        allocator.CACHED("process", carried=carried, own=peak.reserved),
    ]
    terms = [term for term in instant.everything if term.bytes]
    return Phase(
        name=phase.name,
        role=phase.role,
        rank=phase.rank,
        instant=instant.name,
        terms=(*terms, *(term for term in extra if term.bytes)),
        requested_bytes=int(sums.requested),
        allocated_bytes=int(sums.allocated),
        reserved_bytes=int(reserved),
        device_bytes=int(reserved + sums.outside),
        host_bytes=peak.host,
        seconds=phase_seconds(scene, phase),
        per_step=phase.per_step,
        executed=phase.executed,
        inherited_bytes=int(reserved - peak.reserved),
    )


def is_idle(term: Term) -> bool:
    """Whether a term is memory that the allocator holds and no tensor uses."""
    return term.category == "allocator" and not term.host


def step_seconds(phases: tuple[Phase, ...]) -> float | None:
    """Seconds of one step: every phase that happens each step, or None when one is unknown."""
    seconds = [phase.seconds for phase in phases if phase.per_step]
    if any(value is None for value in seconds):
        return None
    return float(sum(value for value in seconds if value is not None))


def word_of(device_bytes: int, budget_bytes: int, blocked: bool) -> str:
    """The verdict's word for a number of bytes."""
    if blocked or device_bytes > budget_bytes:
        return "out of memory"
    return "fits" if device_bytes <= MARGIN * budget_bytes else "tight"


def _verdict(
    scene: Scene, phases: tuple[Phase, ...], worst: Phase, blockers: tuple[str, ...]
) -> Verdict:
    """Judged by the most device bytes of any phase; named after the phase that makes them."""
    facts, plan = scene.facts, scene.plan
    device_bytes = max(phase.device_bytes for phase in phases)
    word = cast(
        "Literal['fits', 'tight', 'out of memory']",
        word_of(device_bytes, facts.budget_bytes, bool(blockers)),
    )
    lead = {"fits": "Fits on", "tight": "Tight on", "out of memory": "Out of memory on"}[word]
    card = facts.gpu.name
    sentence = (
        f"{lead} {plan.gpus} × {card}: {read_gib(device_bytes)} of "
        f"{read_gib(facts.budget_bytes)} GiB, worst phase: {worst.name}"
    )
    if blockers:
        sentence = f"Does not run on {plan.gpus} × {card}: {blockers[0]}"
    return Verdict(word=word, sentence=sentence)
