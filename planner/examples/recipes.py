"""Public recipes: what was published of a run, beside what this project says of its plan."""

from __future__ import annotations

from functools import cache

from planner.cost import cost
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.presets import Preset
from planner.throughput import read_figure, throughput
from planner.units import read_figure_between, read_gib


def beside(recipe: Preset) -> tuple[tuple[str, str], ...]:
    """Each published figure of a recipe, in its source's words, and ours of the same thing."""
    assert recipe.published is not None
    found = _figures(recipe.plan)
    return tuple((said, found[kind]) for said, kind in recipe.published.figures)


@cache
def _figures(plan: Plan) -> dict[str, str]:
    """What a figure can stand beside, by the word that a recipe has for it."""
    footprint = estimate(plan)
    low, high = read_gib(footprint.low_bytes), read_gib(footprint.high_bytes)
    device = f"{read_gib(footprint.device_bytes)} GiB ({low}–{high})"
    rates = throughput(footprint, cost(footprint))
    allocated = max(phase.allocated_bytes for phase in footprint.phases)
    step = footprint.step_seconds or 0.0
    seconds = read_figure_between(step, footprint.low_seconds, footprint.high_seconds)
    return {
        "verdict": f"{footprint.verdict.word}, {device}",
        "device": device,
        "allocated": f"{read_gib(allocated)} GiB",
        "step": f"{seconds} s a step",
        "tokens": f"{read_figure(rates['tokens_per_second_per_gpu'])} tokens/s per GPU",
    }
