"""Each measured phase beside the estimate: cold, with the row's baseline, and completed.

*Cold* is the estimate's device bytes. *Given* puts the row's own ``sleeping_baseline_bytes`` in
place of everything outside the trainer's allocator (context, sleeping engine). *Completed* is that
of a first update, which has no optimizer state before its first step.
"""

from __future__ import annotations

from dataclasses import dataclass

from accuracy.colocated.runs import GENERATION, Row, fields
from accuracy.peaks.compare import high_bytes
from accuracy.quantity import Addition
from accuracy.quantity import scene as scene_of
from planner.estimate import estimate, phase_plans
from planner.formulas import state
from planner.plan import Plan
from planner.term import Instant
from planner.totals.levels import Adder

UPDATE = ("old log-probs", "reference log-probs", "policy forward", "policy backward")
PHASES = {GENERATION: ("rollout",), "training": (*UPDATE, "optimizer step")}
"""Phases of an estimate that a measured one covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A measured phase and its three predictions, in bytes of the device."""

    row: Row
    cold: int
    high: int
    """The upper bound of ``cold``, as the estimate states it."""
    given: int | None
    completed: int | None
    where: str
    additions: tuple[Addition, ...]
    outside: int
    """What the cold estimate counts outside the trainer's allocator."""
    share: int
    """The engine's share of the card."""

    def error(self, size: int) -> float:
        """Signed relative error of a prediction."""
        return size / self.row.device_peak_bytes - 1


def compared(row: Row) -> Compared:
    """The row beside its plan's estimate."""
    plan = Plan(**fields(row))
    footprint = estimate(plan)
    phases = [phase for phase in footprint.phases if phase.name in PHASES[row.phase]]
    worst = max(phases, key=lambda phase: phase.device_bytes)
    given = completed = None
    additions: tuple[Addition, ...] = ()
    where = f"{worst.name}: {worst.instant}"
    if row.sleeping_baseline_bytes is not None:
        baseline = row.sleeping_baseline_bytes
        own = max(phase.reserved_bytes for phase in phases)
        given = own + baseline
        more, where, additions = _completed(row, plan)
        completed = given + more
    return Compared(
        row=row,
        cold=worst.device_bytes,
        high=max(high_bytes(phase) for phase in phases),
        given=given,
        completed=completed,
        where=where,
        additions=additions,
        outside=worst.device_bytes - worst.reserved_bytes,
        share=int(row.gpu_memory_utilization * footprint.budget_bytes),
    )


def _completed(row: Row, plan: Plan) -> tuple[int, str, tuple[Addition, ...]]:
    """Bytes that the highest instant with its additions has above the highest without."""
    scene, adder = scene_of(plan), Adder(plan.expandable_segments)
    plain = best = -1
    where = ""
    additions: tuple[Addition, ...] = ()
    for phase in phase_plans(scene):
        if phase.name not in PHASES[row.phase]:
            continue
        for instant in phase.instants:
            size = int(adder.totals(instant).allocated)
            found = tuple(_additions(row, phase.name, instant))
            plain = max(plain, size)
            size += sum(addition.bytes for addition in found)
            if size > best:
                best, where, additions = size, f"{phase.name}: {instant.name}", found
    return best - plain, where, additions


def _additions(row: Row, phase: str, instant: Instant) -> list[Addition]:
    """What a process's first update lacks, and every later one has."""
    moments = _bytes_of(instant, state.ADAM_MOMENTS.name)
    stepped = row.micro_batches > 1 and phase.startswith("policy")
    if phase not in UPDATE or stepped or not moments:
        return []
    return [Addition(bytes=-moments, why="no optimizer state before the first step")]


def _bytes_of(instant: Instant, name: str) -> int:
    return sum(int(t.bytes) for t in instant.everything if t.name == name and not t.host)
