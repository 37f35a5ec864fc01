"""Why a plan is recommended, what it gives up, where the front bends: sentences for people."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost import cost
from planner.footprint import Footprint
from planner.launch.export import obstacles
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.fields import EIGHT_BIT
from planner.plan.frameworks import framework_named
from planner.plan.length_words import words
from planner.plan.methods import method_of
from planner.search.found import Name, Point, Recommendation
from planner.throughput import read_run
from planner.totals.limits import MARGIN
from planner.units import read_count, read_gib, read_seconds_between, read_usd_between


def trade_offs(before: Plan, after: Plan) -> tuple[str, ...]:
    """What the result of training may lose against the person's plan."""
    found = []
    if before.finetuning == "full" and after.finetuning != "full":
        found.append(
            f"LoRA of rank {after.lora_rank} instead of full fine-tuning: how close the "
            "result comes depends on the task."
        )
    if after.response_tokens < before.response_tokens:
        found.append(
            f"Responses are truncated at {after.response_tokens:,} tokens instead of "
            f"{before.response_tokens:,}."
        )
    if before.optimizer not in EIGHT_BIT and after.optimizer in EIGHT_BIT:
        found.append(
            "Optimizer states in 8 bits, quantized block by block: training is usually as good, "
            "but not numerically the same."
        )
    own = method_of(after).trade_offs
    found += [own[name] for name in own if getattr(before, name) != getattr(after, name)]
    return tuple(found)


MARGINS = {
    "conservative": "fits even at the upper bound of its memory, with {:.0%} of the card free",
    "balanced": "fits, with {:.0%} of the card free",
    "aggressive": "may leave less than {:.0%} of the card free, and may run out of memory",
}


def why(name: Name, best: str, footprint: Footprint) -> str:
    """What it is the best at, its margin, and the plan's figures."""
    plan, paid = footprint.plan, cost(footprint)
    margin = MARGINS.get(name, MARGINS["balanced"]).format(1 - MARGIN)
    found = [
        f"{best} of all plans found whose peak {margin}: "
        f"{read_gib(footprint.device_bytes)} of {read_gib(footprint.budget_bytes)} GiB, at most "
        f"{read_gib(footprint.high_bytes)}, reached in {footprint.worst.name}."
    ]
    if footprint.step_seconds is not None and footprint.doubt is not None:
        times = footprint.step_seconds, footprint.low_seconds, footprint.high_seconds
        took = f"A step takes {read_seconds_between(*times)} on {read_count(plan.gpus, 'GPU')}"
        took += f" with {words(plan)}"
        if paid.hours_run is not None:
            took += f", the run of {plan.steps:,} {read_run(paid)}"
        if paid.usd_run is not None:
            usd = paid.usd_run, paid.low_usd_run, paid.high_usd_run
            took += f" and {read_usd_between(*usd)}"
        found.append(f"{took}.")
    if footprint.host_bytes:
        unknown = "" if plan.host_ram_per_node else "; how much it has is not set"
        found.append(f"A node needs {read_gib(footprint.host_bytes)} GiB of host RAM{unknown}.")
    return " ".join(found)


def same(recommended: Sequence[Recommendation]) -> str:
    """Why there are fewer than three plans; empty where there are, or where there is none."""
    return " ".join(
        f"{one.called.capitalize()} are the same plan: a smaller margin makes nothing better."
        for one in recommended
        if one.also
    )


WORTH = 0.7
"""Of the speed that the cheapest plan's dollars buy: what each further dollar an hour has to buy.

On GPUs of one kind that is the parallel efficiency of the added ones, as on the Scaling page.
"""
NOTICED = 1.1
"""A knee that is faster or cheaper than the plan to take by less is not worth saying."""


def knee(front: Sequence[Point]) -> Point:
    """The last point of a front, cheapest first, up to which further dollars are worth it."""
    found, least = front[0], front[0].usd
    for point in front[1:]:
        speed = 1 / point.hours - 1 / found.hours
        dollars = point.usd / point.hours - found.usd / found.hours
        if speed * least >= WORTH * dollars:
            found = point
    return found


def against(point: Point, other: Recommendation) -> str:
    """What a point costs and takes against a plan, in a few words; empty where hardly another."""
    paid = cost(other.footprint)
    if not paid.usd_run or not paid.hours_run:
        return ""
    dearer, faster = point.usd / paid.usd_run, paid.hours_run / point.hours
    if max(faster, 1 / faster) < NOTICED and dearer > 1 / NOTICED:
        return ""
    pace = f"{faster:.1f}× faster" if faster >= 1 else f"{1 / faster:.1f}× slower"
    return f"{dearer - 1:+.1%} cost, {pace}"


def bend(at: Recommendation, buys: str) -> str:
    """Where the Pareto front bends, if that is a plan that is recommended anyway."""
    more = f" ({buys})" if buys else ""
    return (
        f"Knee of the Pareto front: the {at.called} plan{more}. In faster plans each further "
        f"dollar buys less than {WORTH:.0%} of the speed that one buys in the cheapest plan."
    )


def read_gpus(plan: Plan) -> str:
    """How many of which card: ``32 × H100 80GB SXM5``."""
    return f"{plan.gpus:,} × {facts_of(plan).gpu.name}"


def launched(plan: Plan) -> str:
    """By which framework's script a plan is run, or what is in the way."""
    framework = framework_named(plan.framework)
    found = obstacles(plan, plan.framework)
    if not found:
        return f"Exports to {framework.label}: python -m planner launch writes its files."
    return f"{framework.label} has no launch script for it. {found[0].sentence}"
