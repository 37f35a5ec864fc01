"""Steps of different lengths, one after the other: what the allocator ends up reserving.

A step at the caps finds the cache empty; real steps follow shorter and longer ones, whose freed
blocks fit less well. Each length is run dry once, and the steps are strung together: what stays
from step to step (weights, optimizer states) is the same in all of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from planner.dryrun.allocator import AllocatorSettings
from planner.dryrun.logs.curve import last_step
from planner.dryrun.logs.log import BIRTH, DEATH, PHASE, SCRATCH, STEP, Log
from planner.dryrun.logs.replay import replay_within
from planner.plan import Plan

SHARES = (1.0, 0.8, 0.6, 0.45, 0.3)
"""Lengths tried, as shares of the plan's caps."""
ORDERS = ("longest first", "random order")
SEED = 7


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Highest bytes over all steps of one order; what is reserved and not allocated is lost."""

    order: str
    allocated_bytes: int
    reserved_bytes: int
    alloc_retries: int = 0
    """How often they gave back cached memory to stay within the card."""


def shortened(plan: Plan, share: float) -> Plan:
    """The plan with rows of a share of the caps; at least two tokens each."""
    return plan.model_copy(
        update={
            field: max(2, round(getattr(plan, field) * share))
            for field in ("prompt_tokens", "response_tokens")
        }
    )


def fragmentation(
    logs: Sequence[Log], settings: AllocatorSettings, *, workspace_bytes: int = 0
) -> tuple[Fragmentation, ...]:
    """Reserved bytes over steps of the logs' lengths, by order.

    Args:
        logs: whole logs of the same plan at falling lengths.
        settings: of the allocator.
        workspace_bytes: of one cuBLAS handle.

    Raises:
        ValueError: when the logs are not of one plan.
    """
    shuffled = list(logs)
    random.Random(SEED).shuffle(shuffled)
    found = []
    for order, sequence in zip(ORDERS, (logs, shuffled), strict=True):
        whole = replay_within(chained(sequence), settings, workspace_bytes=workspace_bytes)
        held = whole.phases.values()
        allocated = max(phase.allocated_bytes for phase in held)
        reserved = max(phase.reserved_bytes for phase in held)
        found.append(Fragmentation(order, allocated, reserved, whole.alloc_retries))
    return tuple(found)


def chained(logs: Sequence[Log]) -> Log:
    """The first log up to its steady step, then the steady step of every log in turn."""
    base = logs[0]
    start = last_step(base)
    out = Log(
        events=[event for event in base.events[:start] if event[0] != STEP],
        made=dict(base.made),
        names=list(base.names),
    )
    out.events.append((STEP, 0, 0))
    alive = _alive(base, start)
    for log in logs:
        alive = _append(out, log, alive)
    return out


def _append(out: Log, log: Log, alive: list[int]) -> list[int]:
    """Put the steady step of a log at the end; returns what is alive after it."""
    start = last_step(log)
    there = _alive(log, start)
    stays, passes = _parted(log, there)
    kept, gone = _parted(out, alive)
    if [log.made[key].size_bytes for key in stays] != [out.made[key].size_bytes for key in kept]:
        raise ValueError("lengths: the steps do not start from the same weights and states.")
    known = dict(zip(stays, kept, strict=True))
    numbers = {place: out.name(name) for place, name in enumerate(log.names)}
    fresh = max(out.made, default=-1) + 1
    out.events += [(DEATH, key, out.made[key].size_bytes) for key in gone]
    for key in passes:
        out.made[fresh] = log.made[key]
        out.events.append((BIRTH, fresh, log.made[key].size_bytes))
        known[key] = fresh
        fresh += 1
    now = dict.fromkeys(known[key] for key in there)
    for kind, key, value in log.events[start + 1 :]:
        if kind == BIRTH:
            out.made[fresh] = log.made[key]
            known[key], key = fresh, fresh
            now[fresh] = None
            fresh += 1
        elif kind == DEATH:
            key = known[key]
            del now[key]
        elif kind in (PHASE, SCRATCH):
            key = numbers[key]
        out.events.append((kind, key, value))
    return list(now)


def _parted(log: Log, alive: Sequence[int]) -> tuple[list[int], list[int]]:
    """What stays from step to step; and a batch that a trainer has there before its step."""
    passes = [key for key in alive if log.made[key].category == "activations"]
    return [key for key in alive if log.made[key].category != "activations"], passes


def _alive(log: Log, end: int) -> list[int]:
    """Storages alive at an event, in the order of their birth."""
    alive: dict[int, None] = {}
    for kind, key, _ in log.events[:end]:
        if kind == BIRTH:
            alive[key] = None
        elif kind == DEATH:
            del alive[key]
    return list(alive)
