"""From a run's readings to figures of the whole step. No torch.

Peaks are the highest of the measured steps (on a CPU, of the step whose allocations were
watched); seconds are the median of the measured steps, each led to a whole step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from planner.plan import Plan
from planner.totals.limits import LEADS, MARGIN, word_of
from planner.trial.ask.footprints import (
    LEVELS,
    FootprintFigures,
    PhaseFigures,
    VerdictFigures,
    rates,
)
from planner.trial.run import cadence
from planner.trial.run.execution import Readings
from planner.units import read_bytes

RANKED = (
    "requested_bytes",
    "allocated_bytes",
    "active_bytes",
    "reserved_bytes",
    "device_bytes",
    "device_before_bytes",
    "device_after_bytes",
    "host_bytes",
    "seconds",
    "first_seconds",
    "allocation_retries",
)
"""What differs between ranks."""


def figures_of_run(
    plan: Plan, read: Readings, *, warm_up: int, others_bytes: int = 0
) -> FootprintFigures:
    """The figures of a run.

    Args:
        plan: what ran.
        read: what its steps said.
        warm_up: steps before those that are measured.
        others_bytes: of the device in use by other processes before it began.
    """
    phases = tuple(_phase(read, name, warm_up, others_bytes) for name in read.steps[-1])
    return FootprintFigures(source="trial", plan=plan.model_dump(), phases=phases)


def _phase(read: Readings, name: str, warm_up: int, others_bytes: int) -> PhaseFigures:
    measured = [step[name] for step in read.steps[warm_up:] if name in step]
    full = [at for at in range(warm_up, len(read.steps)) if name in read.steps[at]]

    def most(key: str) -> int | None:
        return max((int(step[key]) for step in measured if key in step), default=None)

    def last(key: str) -> int | None:
        return next((int(step[key]) for step in reversed(measured) if key in step), None)

    def seconds(at: int) -> float:
        entries = read.entries[at][name]
        return max(cadence.step_seconds(read.plans[at], name, entries, read.decode[at]), 0.0)

    spent = median(seconds(at) for at in full)
    of_plans = [read.plans[at] for at in full]
    tokens = _mean(of_plans, lambda each: cadence.step_tokens(each, name))
    flops = _mean(of_plans, lambda each: cadence.step_flops(each, name))
    outside, reserved = most("outside_bytes"), most("reserved_bytes")
    device = None
    if outside is not None and reserved is not None:
        device = max(reserved + outside - others_bytes, reserved)
    retries = [int(step["retries"]) for step in measured if "retries" in step]
    return PhaseFigures(
        name=name,
        source="trial",
        requested_bytes=most("requested_bytes") if read.live is None else read.live.get(name),
        allocated_bytes=most("allocated_bytes"),
        active_bytes=most("active_bytes"),
        reserved_bytes=reserved,
        device_bytes=device,
        device_before_bytes=last("before_bytes"),
        device_after_bytes=last("after_bytes"),
        host_bytes=most("host_bytes"),
        seconds=spent,
        first_seconds=seconds(0) if name in read.entries[0] else None,
        **rates(spent, tokens=tokens, flops=flops),
        allocation_retries=sum(retries) if retries else None,
    )


def _mean(plans: Sequence[Plan], of: Callable[[Plan], float | None]) -> float | None:
    found = [of(plan) for plan in plans]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if len(known) == len(found) else None


def highest(of_ranks: Sequence[FootprintFigures]) -> FootprintFigures:
    """Of each phase the highest bytes and the longest time of any rank."""
    first = of_ranks[0]
    phases = []
    for phase in first.phases:
        others = [found for one in of_ranks if (found := one.phase(phase.name)) is not None]
        changes = {}
        for field in RANKED:
            known = [value for one in others if (value := getattr(one, field)) is not None]
            changes[field] = max(known, default=None)
        changes |= rates(changes["seconds"], tokens=phase.tokens, flops=phase.flops)
        phases.append(phase.model_copy(update=changes))
    return first.model_copy(update={"phases": tuple(phases)})


def judged(figures: FootprintFigures, capacity_bytes: int | None, where: str) -> FootprintFigures:
    """The figures with totals of the worst phase, and a verdict where a capacity is known."""
    phases = figures.phases
    level = "device_bytes" if phases and phases[0].device_bytes is not None else "requested_bytes"
    worst = max(phases, key=lambda phase: getattr(phase, level) or 0)
    peak = getattr(worst, level)
    verdict = None
    if capacity_bytes and peak is not None:
        word = word_of(peak, peak, capacity_bytes)
        verdict = VerdictFigures(
            word=word,
            sentence=f"{LEADS[word]}. Peak {read_bytes(peak)} of {read_bytes(capacity_bytes)}, "
            f"during {worst.name}.",
            lines=(
                f"Measured in {where}: a peak of up to {read_bytes(MARGIN * capacity_bytes)} "
                f"leaves {1 - MARGIN:.0%} to spare.",
            ),
        )
    known = [phase.seconds for phase in phases if phase.seconds is not None]
    hosts = (phase.host_bytes for phase in phases if phase.host_bytes is not None)
    return figures.model_copy(
        update={
            **{total: getattr(worst, total) for total in LEVELS},
            "verdict": verdict,
            "budget_bytes": capacity_bytes,
            "host_bytes": max(hosts, default=None),
            "seconds": sum(known) if len(known) == len(phases) else None,
            "worst_phase": worst.name,
            "worst_rank": worst.rank,
        }
    )


def censored(figures: FootprintFigures) -> bool:
    """Whether the allocator had to retry, so that peaks are capped by the card."""
    return any(phase.allocation_retries for phase in figures.phases)
