"""Counted storages as terms: sizes put in, and the highest of several moments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from planner.catalog.architecture import Architecture
from planner.footprint import Term
from planner.formulas.activations.kinds import KINDS
from planner.formulas.activations.tape import Label
from planner.formulas.activations.workload import Workload
from planner.numeric import Num, total

Moments = tuple[dict[Label, int], ...]
"""What is alive at each moment, by label."""

ARCHITECTURE_SIZES = (
    *("hidden", "intermediate", "heads", "kv_heads", "head_dim", "rotary_dim", "vocab"),
    *("experts", "experts_per_token", "expert_intermediate"),
)
WORKLOAD_SIZES = (
    *("sequences", "tokens", "lora_rank", "value_bytes", "positions", "multiprocessors"),
)


Maker = TypeVar("Maker", bound=Callable[..., tuple[Term, ...]])


def remembered(make: Maker) -> Maker:
    """``make``, which keeps what it made from a tape for plain numbers.

    For a sweep's arrays it computes, and measured coefficients cost too little to be kept.
    """
    known = lru_cache(maxsize=1024)(make)

    @wraps(make)
    def look_up(arch: Architecture, *args: Any, **kwargs: Any) -> tuple[Term, ...]:
        if arch.measured:
            return make(arch, *args, **kwargs)
        try:
            return known(arch, *args, **kwargs)
        except TypeError:  # arrays have no hash
            return make(arch, *args, **kwargs)

    return cast("Maker", look_up)


def highest(
    moments: Moments, share: Num, arch: Architecture, workload: Workload, role: str
) -> list[Term]:
    """Terms of the highest moment; for a sweep, each point has its own highest moment."""
    kinds = {kind for moment in moments for kind, _ in moment}
    sizes = sizes_of(arch, workload)
    unit = {kind: KINDS[kind].value(copies=1, **sizes) for kind in kinds}
    heights = [
        total([unit[kind] * count for (kind, _), count in moment.items()]) for moment in moments
    ]
    if np.ndarray not in map(type, (*heights, share)):
        best = max(range(len(moments)), key=lambda index: heights[index])
        return terms_of(moments[best], arch, workload, role)
    winner = np.argmax(np.stack(np.broadcast_arrays(*heights)), axis=0)
    counts: dict[Label, Num] = defaultdict(int)
    for index in np.unique(winner):
        for label, count in moments[int(index)].items():
            counts[label] = counts[label] + count * (winner == index) * share
    return terms_of(counts, arch, workload, role)


def sizes_of(arch: Architecture, workload: Workload) -> dict[str, Num]:
    """The inputs of every formula in :data:`KINDS`, but ``copies``."""
    of_arch = {name: getattr(arch, name) for name in ARCHITECTURE_SIZES}
    return of_arch | {name: getattr(workload, name) for name in WORKLOAD_SIZES}


def terms_of(
    counts: Mapping[Label, Num], arch: Architecture, workload: Workload, role: str
) -> list[Term]:
    """So many copies of each storage as terms."""
    sizes = sizes_of(arch, workload)
    terms = []
    for (kind, name), copies in counts.items():
        formula = KINDS[kind]
        sizes["copies"] = copies
        inputs = {key: sizes[key] for key in formula.inputs}
        terms.append(formula(role, label=name, tensors=abs(copies), **inputs))
    return terms
