"""Counted storages as terms: sizes put in, and the highest of several moments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from planner.catalog.architecture import Architecture
from planner.footprint import Term
from planner.formulas.activations.kinds import KINDS
from planner.formulas.activations.tape import Label
from planner.formulas.activations.workload import Workload
from planner.numeric import Num, total

Moments = tuple[dict[Label, int], ...]
"""What is alive at each moment, by label."""


def highest(
    moments: Moments,
    share: Num,
    arch: Architecture,
    workload: Workload,
    role: str,
) -> list[Term]:
    """Terms of the highest moment; for a sweep, each point has its own highest moment."""
    kinds = {kind for moment in moments for kind, _ in moment}
    sizes = sizes_of(arch, workload)
    unit = {kind: KINDS[kind].value(copies=1, **sizes) for kind in kinds}
    heights = [
        total([unit[kind] * count for (kind, _), count in moment.items()]) for moment in moments
    ]
    if not any(isinstance(height, np.ndarray) for height in (*heights, share)):
        best = max(range(len(moments)), key=lambda index: heights[index])
        chosen: Iterable[tuple[Label, Num]] = moments[best].items()
    else:
        winner = np.argmax(np.stack(np.broadcast_arrays(*heights)), axis=0)
        counts: dict[Label, Num] = defaultdict(int)
        for index in np.unique(winner):
            for label, count in moments[int(index)].items():
                counts[label] = counts[label] + count * (winner == index) * share
        chosen = counts.items()
    return [term_of(label, count, arch, workload, role) for label, count in chosen]


def sizes_of(arch: Architecture, workload: Workload) -> dict[str, Num]:
    """The inputs of every formula in :data:`KINDS`, but ``copies``."""
    return {
        "sequences": workload.sequences,
        "tokens": workload.tokens,
        "hidden": arch.hidden,
        "intermediate": arch.intermediate,
        "heads": arch.heads,
        "kv_heads": arch.kv_heads,
        "head_dim": arch.head_dim,
        "rotary_dim": arch.rotary_dim,
        "experts": arch.experts,
        "experts_per_token": arch.experts_per_token,
        "expert_intermediate": arch.expert_intermediate,
        "vocab": arch.vocab,
        "lora_rank": workload.lora_rank,
        "value_bytes": workload.value_bytes,
        "positions": workload.positions,
        "multiprocessors": workload.multiprocessors,
    }


def term_of(label: Label, copies: Num, arch: Architecture, workload: Workload, role: str) -> Term:
    """``copies`` of a storage as a term."""
    kind, name = label
    formula = KINDS[kind]
    sizes = sizes_of(arch, workload) | {"copies": copies}
    return formula(
        role,
        label=name,
        tensors=abs(copies),
        **{key: sizes[key] for key in formula.inputs},
    )
