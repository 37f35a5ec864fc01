"""How far a plan's seconds may be off: what published runs of its regime say.

The factors of a step are those of whole steps that were published, never a sum over its phases'
intervals: what makes one phase slow (a small model, a busy host, a card at 500 W) makes its
neighbours slow as well, and steps published whole have that in them. A run is as many of the same
step, so its relative error is the step's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from planner.catalog.efficiencies import efficiencies
from planner.footprint import Factors
from planner.formulas.passes import EXPERTS
from planner.kernels import tables_of
from planner.plan.methods import method_of
from planner.term import TimeTerm
from planner.timing.error import Kind, factors
from planner.values.step_phases import StepPhase

if TYPE_CHECKING:
    from planner.phases.scene import Scene


def doubt_of(
    scene: Scene, phase: StepPhase | None = None, times: tuple[TimeTerm, ...] = ()
) -> Factors:
    """The factors of a phase of the plan, made of ``times``; of its whole step without one.

    So where nobody publishes the phase. A step that samples nothing is an update, and full rows
    are of a length that is known.
    """
    if phase is not None and phase.waits_for_disk:
        return of_the_disk(scene.plan.disk_bytes_per_second > 0)
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
