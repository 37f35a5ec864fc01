"""What a footprint's seconds mean: tokens a second, utilization, GPU-hours, dollars; each opens.

All of them are seconds, or one over seconds, times what is known exactly, so each is as uncertain
as those seconds are: of the step, for utilization of the update's phases, for a run of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

from planner.answer import to_json
from planner.cost import Cost, cost, pass_seconds, seconds_between_steps
from planner.footprint import Factors, Footprint
from planner.formulas.duration import Rate
from planner.formulas.throughput import (
    DOLLARS,
    HARDWARE_FLOPS_UTILIZATION,
    MODEL_FLOPS_UTILIZATION,
    RUN_GPU_HOURS,
    STEP_GPU_HOURS,
    TOKENS_PER_SECOND,
)
from planner.numeric import Num
from planner.plan.facts import facts_of
from planner.units import (
    read_figure_between,
    read_seconds_between,
    read_share_between,
    read_usd_between,
)


class Figure(NamedTuple):
    """One figure between its bounds (None where nobody knows them), and how it is computed."""

    key: str
    name: str
    rate: Rate
    value: float
    low: float | None
    high: float | None
    inputs: dict[str, Num]


def throughput(footprint: Footprint, paid: Cost) -> dict[str, Figure]:
    """Every figure that is known, by key; none of a plan that does not run.

    Keys: ``tokens_per_second_per_gpu``, ``mfu`` and, where something is computed twice, ``hfu``;
    ``gpu_hours_per_step``, ``gpu_hours_run``, ``usd_per_step`` and ``usd_run``.
    """
    if footprint.step_seconds is None or not footprint.priced:
        return {}
    found = (*_yielded(footprint), *_taken(footprint, paid))
    return {figure.key: figure for figure in found}


def answer_json(footprint: Footprint) -> dict[str, Any]:
    """The one JSON shape of an answer, with what was understood, what seconds mean and cost."""
    paid = cost(footprint)
    figures = {
        key: {
            "value": figure.value,
            "low": figure.low,
            "high": figure.high,
            "unit": figure.rate.unit,
            "formula": figure.rate.expression,
            "inputs": {name: float(value) for name, value in figure.inputs.items()},
            "source": figure.rate.source,
        }
        for key, figure in throughput(footprint, paid).items()
    }
    notes = [*footprint.notes]
    return {**to_json(footprint), "notes": notes, "throughput": figures, "cost": asdict(paid)}


def _yielded(footprint: Footprint) -> Iterator[Figure]:
    plan, done, step = footprint.plan, footprint.done, footprint.step_seconds
    if done is None:
        return
    yield _figure(
        "tokens_per_second_per_gpu",
        TOKENS_PER_SECOND,
        _inverse(footprint.doubt),
        tokens=done.tokens,
        step_seconds=step,
        gpus=plan.gpus,
    )
    updates = [phase for phase in footprint.phases if phase.name in done.updates]
    seconds = sum(phase.seconds or 0.0 for phase in updates)
    peak = facts_of(plan).gpu.flops_per_second(plan.dtype)
    if not seconds or peak is None:
        return
    doubt = _inverse(updates[0].doubt)
    of: dict[str, Any] = {"update_seconds": seconds, "peak_flops_per_second": peak}
    yield _figure("mfu", MODEL_FLOPS_UTILIZATION, doubt, model_flops=done.model_flops, **of)
    if done.performed_flops != done.model_flops:
        performed = {"performed_flops": done.performed_flops, **of}
        yield _figure("hfu", HARDWARE_FLOPS_UTILIZATION, doubt, **performed)


def _taken(footprint: Footprint, paid: Cost) -> Iterator[Figure]:
    plan = footprint.plan
    _, elsewhere = pass_seconds(footprint.reference_cache)
    training, doubt = plan.gpus - plan.rollout_gpus, footprint.doubt
    step = _figure(
        "gpu_hours_per_step",
        STEP_GPU_HOURS,
        None if doubt is None else (doubt.low, doubt.high),
        step_seconds=footprint.step_seconds,
        gpus=plan.gpus,
        elsewhere_seconds=elsewhere,
        training_gpus=training,
    )
    run = _figure(
        "gpu_hours_run",
        RUN_GPU_HOURS,
        None,
        steps=plan.steps,
        step_gpu_hours=step.value,
        between_seconds=seconds_between_steps(footprint),
        gpus=plan.gpus,
    )._replace(low=paid.low_gpu_hours_run, high=paid.high_gpu_hours_run)
    yield from (step, run)
    price = paid.price_per_gpu_hour
    if price is not None:
        for key, hours, of in (("usd_per_step", step, "a step"), ("usd_run", run, "the run")):
            yield _figure(
                key,
                DOLLARS,
                None,
                name=f"{DOLLARS.name} of {of}",
                gpu_hours=hours.value,
                usd_per_gpu_hour=price,
            )._replace(
                low=None if hours.low is None else hours.low * price,
                high=None if hours.high is None else hours.high * price,
            )


Bounds = tuple[float, float] | None


def read_figure(figure: Figure) -> str:
    """A figure with its interval, as a person reads it; its unit is in its name."""
    read = {"US dollars": read_usd_between, "share of the peak": read_share_between}
    return read.get(figure.rate.unit, read_figure_between)(figure.value, figure.low, figure.high)


def read_run(paid: Cost) -> str:
    """How long the whole run takes, with its interval."""
    if paid.hours_run is None:
        return "time not known"
    low, high = (
        None if hours is None else 3600 * hours
        for hours in (paid.low_hours_run, paid.high_hours_run)
    )
    return read_seconds_between(3600 * paid.hours_run, low, high)


def _inverse(doubt: Factors | None) -> Bounds:
    return None if doubt is None else (1 / doubt.high, 1 / doubt.low)


def _figure(key: str, rate: Rate, doubt: Bounds, *, name: str = "", **inputs: Any) -> Figure:
    value = float(rate(**inputs))
    low, high = (None, None) if doubt is None else (value * doubt[0], value * doubt[1])
    if high is not None and rate.unit == "share of the peak":
        high = max(value, min(high, 1.0))  # no card does more than its peak
    return Figure(key, name or rate.name, rate, value, low, high, inputs)
