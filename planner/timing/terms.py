"""One cause of a pass's time, by what limits it: operations or memory."""

from __future__ import annotations

from typing import Any

from planner.catalog.efficiencies import typical
from planner.formulas.compute import memory_rates
from planner.formulas.duration import Rate
from planner.formulas.memory_bound import MEMORY_SECONDS
from planner.kernels.grid import Curve
from planner.numeric import Num, maximum
from planner.term import TimeTerm
from planner.timing import layers
from planner.timing.passing import Passing

UNKNOWN: TimeTerm = ()  # type: ignore[assignment]
"""Stands for a term whose rate nobody knows."""


def by_share(
    it: Passing,
    formula: Rate,
    flops: Num,
    share: Num | None,
    dtype: str = "",
    label: str = "",
    factors: tuple[float, float] | None = None,
    look_ups: tuple[Any, ...] = (),
) -> TimeTerm:
    """FLOPs at a share of the peak, which wide products keep for as long as power lets them.

    ``factors`` are on the seconds, where the share is an assumption.
    """
    peak = it.gpu.flops_per_second(dtype or it.dtype)
    if share is None or peak is None:
        return UNKNOWN
    lasting: dict[str, Num] = {}
    if "sustained" in formula.inputs:
        lasting["sustained"] = typical("sustained-compute", it.gpu)
    return formula.term(
        it.row.role.name,
        label=label,
        evidence=layers.evidence(it.gpu),
        factors=factors,
        look_ups=look_ups,
        flops=flops,
        peak_flops_per_second=peak,
        share=share,
        **lasting,
    )


def by_memory(it: Passing, label: str, bytes_moved: Num) -> TimeTerm:
    """Bytes at what a copy reaches of the bandwidth."""
    rates = memory_rates(it.gpu)
    if rates is None:
        return UNKNOWN
    return MEMORY_SECONDS.term(it.row.role.name, label=label, bytes_moved=bytes_moved, **rates)


def read(curve: Curve | None, rows: Num) -> Num | None:
    """A curve at a number of rows; one row is the least that a kernel has."""
    return None if curve is None else curve(maximum(rows, 1.0))
