"""Why a plan is recommended, what it gives up, and how it is run: sentences for people."""

from __future__ import annotations

from planner.cost import cost
from planner.footprint import Footprint
from planner.frameworks import framework_named
from planner.launch.export import obstacles
from planner.lengths import words
from planner.methods import method_of
from planner.plan import Plan
from planner.plan.fields import EIGHT_BIT
from planner.search.found import Name
from planner.search.wish import GOALS, Wish
from planner.throughput import read_run
from planner.totals.limits import MARGIN
from planner.units import read_count, read_gib, read_seconds_between, read_usd_between


def trade_offs(before: Plan, after: Plan) -> tuple[str, ...]:
    """What the result of training may lose against the person's plan."""
    found = []
    if before.finetuning == "full" and after.finetuning != "full":
        found.append(
            f"LoRA trains adapters of rank {after.lora_rank} in place of all weights: what they "
            "reach depends on the task."
        )
    if after.response_tokens < before.response_tokens:
        found.append(
            f"Responses end at {after.response_tokens:,} tokens in place of "
            f"{before.response_tokens:,}: longer answers are cut off, and score as they stand."
        )
    if before.optimizer not in EIGHT_BIT and after.optimizer in EIGHT_BIT:
        found.append(
            "The optimizer's moments are kept in 8 bits, in blocks with a scale of their own: "
            "usually as good, not the same run."
        )
    own = method_of(after).trade_offs
    found += [own[name] for name in own if getattr(before, name) != getattr(after, name)]
    return tuple(found)


MARGINS = {
    "conservative": "fits at the upper bound of what nobody can know exactly, with {:.0%} of the "
    "card to spare on top of it",
    "balanced": "fits, with {:.0%} of the card to spare",
    "aggressive": "may leave less than {:.0%} of the card, and runs out of memory where the "
    "estimate is low",
}


def why(name: Name, wish: Wish, footprint: Footprint, alike: str) -> str:
    """The goal, the margin, and the plan's figures."""
    plan, paid = footprint.plan, cost(footprint)
    margin = MARGINS[name].format(1 - MARGIN)
    found = [
        f"{GOALS[wish.goal].best} of those found whose peak {margin}: "
        f"{read_gib(footprint.device_bytes)} of {read_gib(footprint.budget_bytes)} GiB, at most "
        f"{read_gib(footprint.high_bytes)}; {footprint.worst.name} decides."
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
        unknown = "" if plan.host_ram_per_node else ", which nobody has said that it has"
        found.append(f"A node needs {read_gib(footprint.host_bytes)} GiB of host RAM{unknown}.")
    return " ".join((*found, *filter(None, [alike])))


def launched(plan: Plan) -> str:
    """By which framework's script a plan is run, or what is in the way."""
    framework = framework_named(plan.framework)
    found = obstacles(plan, plan.framework)
    if not found:
        return f"Exports to {framework.label}: python -m planner launch writes its files."
    return f"{framework.label} has no script for it. {found[0].sentence}"
