"""How far a plan's seconds may be off: what published runs of its regime say.

The factors of a step are those of whole steps that were published, never a sum over its phases'
intervals: what makes one phase slow (a small model, a busy host, a card at 500 W) makes its
neighbours slow as well, and steps published whole have that in them. A run is as many of the same
step, so its relative error is the step's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from planner.catalog.efficiencies import efficiencies
from planner.footprint import Factors
from planner.formulas.passes import EXPERTS
from planner.kernels import tables_of
from planner.numeric import Num
from planner.plan.methods import method_of
from planner.term import TimeTerm
from planner.timing.error import Kind, factors
from planner.timing.step import OVERLAPPED
from planner.values.step_phases import StepPhase

if TYPE_CHECKING:
    from planner.phases.phase import PhasePlan
    from planner.phases.scene import Scene

APART = "What the method itself states of a step's seconds is no part of that."


def doubt_of(
    scene: Scene, phase: StepPhase | None = None, times: tuple[TimeTerm, ...] = ()
) -> Factors:
    """The factors of a phase of the plan, made of ``times``; of its whole step without one.

    So where nobody publishes the phase, unless all of its terms have factors of their own. A step
    that samples nothing is an update, and full rows are of a length that is known.
    """
    if phase is not None and phase.waits_for_disk:
        return of_the_disk(scene.plan.disk_bytes_per_second > 0)
    own = [one.factors for one in times if one.factors is not None]
    if phase is not None and phase.published is None and own and len(own) == len(times):
        low, high = min(one[0] for one in own), max(one[1] for one in own)
        return Factors(low=low, high=high, rows=0, words=stated(low, high))
    whole: Kind = "step" if method_of(scene.plan).generates else "update"
    gpu, plan = scene.facts.gpu, scene.plan
    tables = None if gpu.speeds is not None else tables_of(gpu)
    found = _factors(
        whole if phase is None else phase.published or whole,
        scene.policy.arch.sparse_layers > 0,
        tables is not None and tables.own,
        plan.length_distribution != "" or plan.batch_shape == "full",
    )
    more = sum(
        one.high - one.seconds
        for one in times
        if one.name == EXPERTS.name and one.high is not None
    )
    if not more:
        return found
    high = found.high * float(1 + more / sum(one.seconds for one in times))
    return replace(
        found,
        high=high,
        words=f"{found.words} Up to {high:.3g} times where experts are looped over "
        f"(experts_implementation=eager, {scene.framework.looped_experts[0]}).",
    )


def of_step(found: Factors, overlap: str, step: Num, phases: Iterable[PhasePlan]) -> Factors:
    """The factors of a step: what its method states of it has its own, the rest those ``found``.

    Of a step that overlaps with another one nobody knows which side the stated seconds prolong.
    In a sweep they are arrays.
    """
    own = [
        term
        for phase in phases
        if phase.per_step and phase.kind.published is None
        for term in phase.times
        if term.factors is not None
    ]
    if overlap in OVERLAPPED or not own:
        return found
    rest = 1 - sum(term.seconds for term in own) / step
    ends: dict[str, Any] = {
        end: rest * getattr(found, end) + sum(getattr(term, end) for term in own) / step
        for end in ("low", "high")
    }
    return replace(found, **ends, words=f"{found.words} {APART}")


def stated(low: float, high: float) -> str:
    """How far seconds may be off that nobody publishes, by the factors that their terms state."""
    if low == high == 1:
        return "The plan says how long it takes."
    return f"{low:.2f} to {high:.2f} times the estimate, as its terms state."


@cache
def of_the_disk(known: bool) -> Factors:
    """The factors of what waits for a disk, whose rate the plan may say."""
    if known:
        words = "The plan says how fast its disk is."
        return Factors(low=1.0, high=1.0, rows=0, words=words)
    rate = efficiencies()["disk-bytes-per-second"]
    low, high = rate.spread()
    words = f"{low:.2f} to {high:.2f} times the estimate: nobody said how fast the disk is."
    return Factors(low=low, high=high, rows=0, words=words)


@cache
def _factors(phase: Kind, mixture: bool, tables: bool, lengths: bool) -> Factors:
    return factors(phase, mixture=mixture, tables=tables, lengths=lengths)
