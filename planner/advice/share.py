"""The engine's share of the card and how many GPUs it is spread over, chosen together.

An engine's weights, working set and cache come out of its share; what the share takes of a card
that trains as well, training lacks when the engine wakes up. So both are judged on the whole plan.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.advice.edits import Edit, share_title, spread_title
from planner.advice.outcome import Outcome
from planner.advice.suggestion import Read, Suggestion, Trying, merged
from planner.phases import engine
from planner.phases.scene import Scene, scene_of
from planner.plan import Plan, try_plan
from planner.plan.facts import facts_of
from planner.sweeps.grid import Grid
from planner.totals.limits import MARGIN
from planner.units import read_bytes, read_count

SHARES = tuple(percent / 100 for percent in range(5, 100, 5))
"""Shares that people write."""

SURELY = 0.95
"""Of what a larger share takes more: its rounding, and what else of the engine may shrink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What an engine's share holds."""

    short_bytes: int
    """That the share is too small by for the engine to start; 0 or less where it starts."""
    share_bytes: int
    holds: int
    """Whole-length sequences that the cache holds at once."""
    wanted: int
    """Sequences that an engine has to generate and may run at once."""

    @property
    def starts(self) -> bool:
        """Whether the engine has room for its weights and one whole sequence."""
        return self.short_bytes <= 0

    @property
    def waits(self) -> bool:
        """Whether some sequences wait, or are preempted when others grow."""
        return self.holds < self.wanted


def has_engine(plan: Plan) -> bool:
    """Whether the plan's responses come from an engine with a share of a card."""
    return plan.rollout.startswith("vllm")


def room_of(plan: Plan) -> Room:
    """What the plan's engine has room for."""
    scene = _scene(plan)
    return Room(
        short_bytes=int(engine.shortfall_bytes(scene)),
        share_bytes=int(engine.share_bytes(scene)),
        holds=int(engine.concurrent_sequences(scene)),
        wanted=_wanted(scene),
    )


def _wanted(scene: Scene) -> int:
    return min(scene.plan.max_num_seqs, int(engine.sequences_each(scene)))


def _scene(plan: Plan) -> Scene:
    return scene_of(plan, facts_of(plan))


def lowered_asleep_bytes(plan: Plan, edit: Edit) -> float:
    """By how much an edit lowers what a sleeping engine keeps of the trainer's card."""
    changed = _changed(plan, (edit,))
    return 0.0 if changed is None else _asleep_bytes(plan) - _asleep_bytes(changed)


def _asleep_bytes(plan: Plan) -> float:
    held = engine.held(_scene(plan), "asleep")
    return float(sum(term.bytes for term in held if not term.host))


def in_words(outcome: Outcome, read: Read = read_bytes) -> str:
    """What the share holds, whether sequences wait, and what waking up takes at worst.

    Empty where no engine has a share.
    """
    plan = outcome.plan
    if not has_engine(plan):
        return ""
    room = room_of(plan)
    share = f"{plan.gpu_memory_utilization:.3g}"
    took = f"vLLM reserves {read(room.share_bytes)} (GPU memory utilization {share})"
    if not room.starts:
        return f"{took}: {read(room.short_bytes)} too little to start."
    said = f"{took}: KV cache for {read_count(room.holds, 'full-length sequence')}"
    said += f" of the {room.wanted:,} that may run at once"
    if room.waits:
        said += "; the others wait or are preempted and recomputed"
    levels = [one for one in outcome.levels if one.rank == "trainer"]
    waking = [one for one in levels if one.kind.moment.engine != "asleep"]
    if plan.rollout != "vllm-colocated" or not waking:
        return f"{said}."
    worst = max(waking, key=lambda one: one.high_bytes)
    return (
        f"{said}. When vLLM wakes for {worst.name}, the GPU holds {read(worst.device_bytes)} (up "
        f"to {read(worst.high_bytes)}) of {read(outcome.budget_bytes)}."
    )


def spreads(plan: Plan) -> Iterator[int]:
    """Tensor parallel sizes within a node that divide the engine's GPUs and the model's heads."""
    gpus = plan.rollout_gpus if plan.rollout == "vllm-separate" else plan.gpus
    heads, over = _scene(plan).facts.served.heads, 1
    while over <= min(gpus, plan.gpus_per_node):
        if gpus % over == 0 and heads % over == 0:
            yield over
        over *= 2


def starting(plan: Plan) -> Iterator[tuple[Edit, ...]]:
    """For each spread the least change of the share with which the engine starts.

    The plan's own share where that is enough.
    """
    for over in spreads(plan):
        spread = _edits(plan, over, plan.gpu_memory_utilization)
        shares = (s for s in SHARES if s > plan.gpu_memory_utilization)
        for made in (spread, *(_edits(plan, over, share) for share in shares)):
            changed = _changed(plan, made)
            if changed is not None and room_of(changed).starts:
                yield made
                break


def chosen(trying: Trying, over: int) -> Suggestion | None:
    """The share that serves a plan best at one spread: what its sequences need, as far as it fits.

    None where no share both starts and fits, or the plan has it already.
    """
    plan = trying.before.plan
    useful = list(_useful(plan, over))
    if not useful:
        return None
    low, high = -1, len(useful)
    # Memory rises with the share: first where it should stop fitting, then by halves.
    for probe in _probes(trying.before, useful):
        if low < probe < high:
            low, high = _narrowed(trying, over, useful, probe, low, high)
    while high - low > 1:
        low, high = _narrowed(trying, over, useful, (low + high) // 2, low, high)
    return trying.edited(*_edits(plan, over, useful[low])) if low >= 0 else None


def _narrowed(
    trying: Trying, over: int, useful: list[float], at: int, low: int, high: int
) -> tuple[int, int]:
    """The last share that is known to fit and the first that does not, with one more tried."""
    found = _with(trying, over, useful[at])
    if found is None or not found.fits:
        return low, at
    if at + 1 < high and _too_large(found, useful[at + 1]):
        high = at + 1
    return at, high


def _too_large(found: Outcome, share: float) -> bool:
    """Whether a larger share, which takes as much more of the card, surely leaves it too small."""
    now = found.plan.gpu_memory_utilization
    more_bytes = SURELY * (share - now) / now * room_of(found.plan).share_bytes / MARGIN
    return _with_cache(found) + more_bytes > found.budget_bytes


def _with_cache(outcome: Outcome) -> float:
    """What the phases need in which the engine has its cache, which is what a share changes."""
    return max((one.needs_bytes for one in outcome.levels if one.pool_bytes), default=0.0)


def _probes(before: Outcome, useful: list[float]) -> tuple[int, ...]:
    """Which shares to try first: the largest that should fit, and its neighbours.

    A share takes as much more of the card as it is larger. Where a phase is too large in which the
    engine sleeps, most likely no share helps.
    """
    taken, own = room_of(before.plan).share_bytes, before.plan.gpu_memory_utilization
    free = before.budget_bytes - _with_cache(before)
    likely = max(bisect(useful, own + free * MARGIN * own / taken) - 1, 0)
    asleep = (one for one in before.levels if not one.pool_bytes)
    none = any(one.needs_bytes > before.budget_bytes for one in asleep)
    return (*((0,) if none else ()), likely, likely + 1, likely - 1)


def choices(trying: Trying) -> Iterator[Suggestion]:
    """The share that serves best at each spread."""
    if has_engine(trying.before.plan):
        for over in spreads(trying.before.plan):
            found = chosen(trying, over)
            if found is not None:
                yield found


def best(trying: Trying) -> Suggestion | None:
    """The fastest of them; None where none is faster than the plan."""
    faster = [one for one in choices(trying) if one.seconds.sign == "less"]
    return min(faster, key=lambda one: one.step_seconds or 0.0, default=None)


def _useful(plan: Plan, over: int) -> Iterator[float]:
    """Shares with which the engine starts, up to the first that holds all it may run at once."""
    spread = _changed(plan, _edits(plan, over, plan.gpu_memory_utilization))
    if spread is None:
        return
    # Whether each is a plan is asked when it is tried.
    grid: Any = Grid(spread, {"gpu_memory_utilization": SHARES})
    scene = _scene(grid)
    starts = np.broadcast_to(engine.shortfall_bytes(scene), len(SHARES)) <= 0
    holds = np.broadcast_to(engine.concurrent_sequences(scene), len(SHARES))
    for share in np.flatnonzero(starts):
        yield SHARES[share]
        if holds[share] >= _wanted(scene):
            return


def _with(trying: Trying, over: int, share: float) -> Outcome | None:
    """What the plan comes to with this share and spread; None where it is no plan."""
    changed = _changed(trying.before.plan, _edits(trying.before.plan, over, share))
    return None if changed is None else trying.outcome(changed)


def _edits(plan: Plan, over: int, share: float) -> tuple[Edit, ...]:
    found = []
    if over != plan.rollout_tensor_parallel:
        spread = {"rollout_tensor_parallel": over}
        found.append(Edit(title=spread_title(plan, over), kind="engine", changes=spread))
    if share != plan.gpu_memory_utilization:
        changes = {"gpu_memory_utilization": share}
        found.append(Edit(title=share_title(share), kind="engine", changes=changes))
    return tuple(found)


def _changed(plan: Plan, made: tuple[Edit, ...]) -> Plan | None:
    return try_plan({**plan.model_dump(), **merged(made)})[0]
