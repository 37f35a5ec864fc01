"""When memory ends, or would: what a result says of it, and what would have fitted."""

from __future__ import annotations

from planner.dryrun.ask.request import configs_of
from planner.dryrun.run.execute import repeated
from planner.plan import Plan
from planner.plan.link import to_query_string
from planner.trial.endings import MemoryEnded
from planner.trial.executed import smaller
from planner.trial.predicted import executed_bytes
from planner.trial.result import OutOfMemory, PredictedPeak, Ran
from planner.trial.sizing import Sizing
from planner.units import read_bytes, read_seconds

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
    found = OutOfMemory(
        phase=ended.phase,
        asked_bytes=ended.asked_bytes,
        live_bytes=ended.live_bytes,
        capacity_bytes=capacity,
        would_fit=_link(instead),
        would_fit_words=instead[1] if instead else "",
        predicted=_predicted(need, capacity),
    )
    return found, f"Out of memory in {ended.phase}: it asked for {asked}{live}{limit}."


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
    found = OutOfMemory(
        phase=phase,
        capacity_bytes=sizing.capacity,
        would_fit=_link(instead),
        would_fit_words=instead[1] if instead else "",
        predicted=_predicted(needs.bytes, sizing.capacity),
    )
    smallest = f" The smallest trial that would: {instead[1]}." if instead else ""
    room = sizing.room()
    assert room is not None
    return found, (
        f"It will not fit here, even with {least} layers: {read_bytes(room.bytes)} and "
        f"{read_seconds(room.seconds)} are there.{smallest}"
    )


def _link(found: Fitting) -> str | None:
    """The smaller plan as a result has it."""
    return None if found is None else to_query_string(found[0])


def _predicted(need_bytes: int, capacity_bytes: int | None) -> PredictedPeak:
    over = capacity_bytes is not None and need_bytes > capacity_bytes
    return PredictedPeak(bytes=need_bytes, out_of_memory=over)
