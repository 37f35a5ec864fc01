"""Counted storages as terms: sizes put in, and the highest of several moments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from planner.catalog.architecture import Architecture
from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.tape import Label
from planner.formulas.activations.workload import Workload
from planner.numeric import Num, remembered, some, total
from planner.term import Term


class Moments(NamedTuple):
    """What is alive at each moment, by label, and by size: ``counts`` is moments × kinds."""

    alive: tuple[Mapping[Label, int], ...]
    kinds: tuple[Kind, ...]
    counts: np.ndarray[Any, np.dtype[np.int64]]

    def heights(self, sizes: dict[str, Num]) -> list[Num]:
        """Bytes alive at each moment."""
        units = [kind.formula.of(sizes) for kind in self.kinds]
        if np.ndarray not in map(type, units):
            return (self.counts @ units).tolist()  # type: ignore[no-any-return]
        rows = self.counts.tolist()
        return [
            total([unit * count for unit, count in zip(units, row, strict=True) if count])
            for row in rows
        ]


def moments_of(alive: Iterable[Mapping[Label, int]]) -> Moments:
    """Moments with their counts, which callers keep: they are the same for all lengths."""
    moments = tuple(alive)
    kinds = tuple(dict.fromkeys(kind for moment in moments for kind, _ in moment))
    counts = np.zeros((len(moments), len(kinds)), dtype=np.int64)
    for row, moment in zip(counts, moments, strict=True):
        for (kind, _), count in moment.items():
            row[kinds.index(kind)] += count
    return Moments(moments, kinds, counts)


ARCHITECTURE_SIZES = (
    *("hidden", "intermediate", "heads", "kv_heads", "head_dim", "rotary_dim", "vocab"),
    *("experts", "experts_per_token", "expert_intermediate"),
)
WORKLOAD_SIZES = (
    *("sequences", "tokens", "lora_rank", "value_bytes", "positions", "multiprocessors"),
)
_of_architecture = attrgetter(*ARCHITECTURE_SIZES)
_of_workload = attrgetter(*WORKLOAD_SIZES)

Maker = TypeVar("Maker", bound=Callable[..., tuple[Term, ...]])


def shared_by_roles(make: Maker) -> Maker:
    """``make``, which keeps what it made from a tape for plain numbers, whichever role asked.

    For a sweep's arrays it computes, and measured coefficients cost too little to be kept.
    """
    known = remembered(make)

    @wraps(make)
    def look_up(
        arch: Architecture, workload: Workload, *, role: str, **kwargs: Any
    ) -> tuple[Term, ...]:
        if some(workload.alone):
            return tuple(_by_rows(look_up, arch, workload, role=role, **kwargs))
        if arch.measured:
            return make(arch, workload, role=role, **kwargs)
        return tuple([term.of(role) for term in known(arch, workload, role="", **kwargs)])

    return cast("Maker", look_up)


def _by_rows(
    make: Maker, arch: Architecture, workload: Workload, **kwargs: Any
) -> Iterator[Term]:
    """A sweep's terms of packed rows that are one sequence, without a mask, and of the others."""
    alone = workload.alone
    for share, shape in ((alone, "full"), (1 - alone, workload.batch_shape)):
        for term in make(arch, replace(workload, alone=0, batch_shape=shape), **kwargs):
            inputs = {**term.inputs, "copies": share * term.inputs["copies"]}
            yield term._replace(
                bytes=share * term.bytes, inputs=inputs, tensors=share * term.tensors
            )


def highest(
    found: Sequence[Moments], share: Num, arch: Architecture, workload: Workload, role: str
) -> list[Term]:
    """Terms of the highest moment; for a sweep, each point has its own highest moment."""
    sizes = sizes_of(arch, workload)
    heights = [height for each in found for height in each.heights(sizes)]
    moments = [moment for each in found for moment in each.alive]
    if np.ndarray not in map(type, (*heights, share)):
        return _terms(moments[heights.index(max(heights))], sizes, role)
    winner = np.argmax(np.stack(np.broadcast_arrays(*heights)), axis=0)
    counts: dict[Label, Num] = defaultdict(int)
    for index in np.unique(winner):
        for label, count in moments[int(index)].items():
            counts[label] = counts[label] + count * (winner == index) * share
    return _terms(counts, sizes, role)


def sizes_of(arch: Architecture, workload: Workload) -> dict[str, Num]:
    """The inputs of every formula in :data:`.kinds.KINDS`, for one copy."""
    found = (*_of_architecture(arch), *_of_workload(workload), 1)
    return dict(zip((*ARCHITECTURE_SIZES, *WORKLOAD_SIZES, "copies"), found, strict=True))


def terms_of(
    counts: Mapping[Label, Num], arch: Architecture, workload: Workload, role: str
) -> list[Term]:
    """So many copies of each storage as terms."""
    return _terms(counts, sizes_of(arch, workload), role)


def _terms(counts: Mapping[Label, Num], sizes: Mapping[str, Num], role: str) -> list[Term]:
    terms = []
    for (kind, name), copies in counts.items():
        formula = kind.formula
        inputs = {key: sizes[key] for key in formula.inputs}
        inputs["copies"] = copies
        terms.append(formula.made(role, inputs, name, abs(copies)))
    return terms
