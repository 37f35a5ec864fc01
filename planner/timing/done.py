"""What a step gets done, which rates are taken of: its tokens, and its updates' operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from planner.numeric import Num
from planner.phases.phase import PhasePlan, Work
from planner.phases.scene import Scene

TRAINING = ("forward", "backward")


class Done(NamedTuple):
    """Of one step; numbers, or arrays of a sweep's grid."""

    tokens: Num
    """Prompt and response tokens of all its sequences, padding left out."""
    model_flops: Num
    """Operations on one GPU that forward and backward of what trains need at least."""
    performed_flops: Num
    """The same with all that is computed a second time."""
    updates: tuple[str, ...]
    """Phases that make an update: forward, backward and optimizer."""


def done_of(scene: Scene, plans: Iterable[PhasePlan]) -> Done:
    """What a step of these phases gets done."""
    needed: Num = 0.0
    performed: Num = 0.0
    updates = []
    for phase in plans:
        if not any(row.run in (*TRAINING, "optimizer") for row in phase.work):
            continue
        updates.append(phase.name)
        for row in phase.work:
            if row.run in TRAINING:
                needed, performed = needed + _flops(_once(row)), performed + _flops(row)
    return Done(
        tokens=scene.q.sequences_per_step * scene.q.row_tokens,
        model_flops=needed,
        performed_flops=performed,
        updates=tuple(updates),
    )


def _once(row: Work) -> Work:
    """The pass, computing nothing twice."""
    if not row.recomputed and not row.scored_again:
        return row
    return replace(row, recomputed=0, scored_again=0)


def _flops(row: Work) -> Num:
    flops = row.flops
    return 0.0 if flops is None else flops
