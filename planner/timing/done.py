"""What a step gets done, which rates are taken of: its tokens, and its updates' operations."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from planner.footprint import Done
from planner.numeric import Num
from planner.phases.phase import PhasePlan, Work
from planner.phases.scene import Scene
from planner.plan.lengths import lengths_of, prompt_of

TRAINING = ("forward", "backward")


def makes_update(phase: PhasePlan) -> bool:
    """Whether a phase is part of an update: forward, backward or optimizer."""
    return any(row.run in (*TRAINING, "optimizer") for row in phase.work)


def done_of(scene: Scene, plans: Iterable[PhasePlan]) -> Done:
    """What a step of these phases gets done."""
    made = [phase for phase in plans if makes_update(phase)]
    names = tuple(phase.name for phase in made)
    return done_in(scene, *(phase.work for phase in made))._replace(updates=names)


def done_in(scene: Scene, *work: tuple[Work, ...]) -> Done:
    """The same of the rows of the table of work of such phases; their names are left out."""
    q, rows = scene.q, lengths_of(scene.plan).after(prompt_of(scene.plan))
    padded = q.training.tokens / (q.sequences_per_gpu_step * rows.mean)
    longer = q.training.row_tokens / rows.attended
    needed: Num = 0.0
    performed: Num = 0.0
    for row in chain(*work):
        if row.run in TRAINING:
            # Without padding: so many times fewer tokens, in rows so much shorter, done once.
            sizes = row.tokens / padded, row.row_tokens / longer, row.scored_tokens / padded
            needed = needed + row.flops_of(*sizes)
            performed = performed + row.flops
    return Done(
        tokens=q.sequences_per_step * rows.mean,
        model_flops=needed,
        performed_flops=performed,
        updates=(),
    )
