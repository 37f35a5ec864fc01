"""Seconds for which GPUs with shorter rows wait for the one with the longest."""

from __future__ import annotations

from dataclasses import replace

from planner.formulas.uneven import UNEVEN
from planner.numeric import maximum
from planner.phases.phase import Work
from planner.phases.scene import Scene
from planner.term import TimeTerm
from planner.timing import trainer
from planner.timing.passing import is_zero

Terms = tuple[TimeTerm, ...]
NOISE = 1e-9


def uneven(scene: Scene, row: Work, computed: Terms) -> Terms:
    """What follows a pass on the average GPU; nothing where all rows are of one length.

    The slowest GPU's pass is computed like the others', with its own tokens: they meet larger
    products, and what is done to weights takes no longer.
    """
    if isinstance(row.imbalance, (int, float)) and row.imbalance <= 1 + NOISE:
        return ()
    # Nothing of none: a row that only meets the head runs no layers on the slowest GPU either.
    tokens, scored_tokens = (
        size if is_zero(size) else size * row.imbalance for size in (row.tokens, row.scored_tokens)
    )
    longest = tokens / scene.q.sequences_per_gpu_step
    most = replace(
        row,
        tokens=tokens,
        row_tokens=maximum(row.row_tokens, longest),
        scored_tokens=scored_tokens,
    )
    slowest = trainer.computed(scene, most)
    if slowest is None:
        return ()
    found = UNEVEN.term(
        row.role.name,
        slowest_seconds=sum(term.seconds for term in slowest),
        seconds=sum(term.seconds for term in computed),
    )
    return (found,)
