"""When memory ends, or would: what a result says of it, and what would have fitted."""

from __future__ import annotations

from planner.dryrun.ask.request import configs_of
from planner.dryrun.run.execute import repeated
from planner.plan import Plan
from planner.plan.query import to_query_string
from planner.trial.ask.endings import MemoryEnded
from planner.trial.ask.result import OutOfMemory, PredictedPeak, Ran
from planner.trial.ask.variants import smaller
from planner.trial.run.prediction import executed_bytes
from planner.trial.run.sizing import Sizing
from planner.units import read_bytes, read_count, read_seconds

Fitting = tuple[Plan, str] | None


def out_of_memory(sizing: Sizing, ended: MemoryEnded, ran: Ran) -> tuple[OutOfMemory, str]:
    """Memory ended in the run of ``ran``; the result's part, and a sentence."""
    assert ran.predicted is not None
    said = executed_bytes(ran.predicted, sizing.level)
    need = said.get(ended.phase, max(said.values(), default=0))
    capacity = ended.capacity_bytes or sizing.capacity
    asked = "memory" if ended.asked_bytes is None else read_bytes(ended.asked_bytes)
    live = "" if ended.live_bytes is None else f" with {read_bytes(ended.live_bytes)} in use"
    limit = "" if capacity is None else f" of {read_bytes(capacity)}"
    instead = sizing.fitting(smaller(sizing.request.planned()), capacity)
    found = _found(ended.phase, need, capacity, instead).model_copy(
        update={"asked_bytes": ended.asked_bytes, "live_bytes": ended.live_bytes}
    )
    return found, f"Out of memory in {ended.phase}: the step asked for {asked}{live}{limit}."


def will_not_fit(sizing: Sizing) -> tuple[OutOfMemory, str]:
    """Not even two depths fit; the result's part, and a sentence."""
    needs = sizing.needs(sizing.plan, sizing.full)
    least = sizing.full.layers
    pattern = repeated(sizing.plan, configs_of(sizing.plan))
    if pattern is not None:
        least = min(least, pattern.lead + 2 * pattern.period)
    instead = sizing.fitting(smaller(sizing.request.planned()), sizing.capacity, layers=least)
    phase, _ = max(
        executed_bytes(sizing.full.predicted, sizing.level).items(),
        key=lambda pair: pair[1],
        default=("the step", 0),
    )
    found = _found(phase, needs.bytes, sizing.capacity, instead)
    smallest = f" The smallest trial that would fit: {instead[1]}." if instead else ""
    room = sizing.room()
    assert room is not None
    return found, (
        f"It will not fit here, even with {read_count(least, 'layer')}: "
        f"{read_bytes(room.bytes)} and {read_seconds(room.seconds)} are there.{smallest}"
    )


def _found(
    phase: str, need_bytes: int, capacity_bytes: int | None, instead: Fitting
) -> OutOfMemory:
    plan, words = instead or (None, "")
    over = capacity_bytes is not None and need_bytes > capacity_bytes
    return OutOfMemory(
        phase=phase,
        capacity_bytes=capacity_bytes,
        would_fit=None if plan is None else to_query_string(plan),
        would_fit_words=words,
        predicted=PredictedPeak(bytes=need_bytes, out_of_memory=over),
    )
