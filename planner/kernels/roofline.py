"""The least time that a kernel can take, and what a measured share makes of it.

Imports formulas' expressions; each is shown on the Formulas page and computed from the same text.
"""

from __future__ import annotations

import numpy as np

from planner.catalog.efficiencies import Key
from planner.catalog.gpu_catalog import Gpu
from planner.formulas.duration import Rate
from planner.numeric import Num, maximum, where

ROOFLINE = "Williams et al. 2009 (Roofline), CACM 52(4)"
TABLE = "kernel tables of the catalog (aiconfigurator-core 0.12.0), nearest shapes in log space"

ROOFLINE_SECONDS = Rate(
    "roofline of one kernel",
    "maximum(flops / peak_flops_per_second, size_bytes / bandwidth_bytes_per_second)",
    unit="seconds",
    source=ROOFLINE,
    why="A kernel computes or moves its operands, each at the datasheet's peak at best.",
    ignores="what stays in caches",
)
KERNEL_SECONDS = Rate(
    "one kernel by its shape",
    "roofline_seconds / share",
    unit="seconds",
    source=TABLE,
    why="The share of the roofline that the same kernel reached at the nearest measured shapes.",
    ignores="the gap before a launch, and neighbours that run beside it",
)


def positive(**sizes: Num) -> None:
    """``ValueError`` naming the first size that is not above 0."""
    for name, size in sizes.items():
        least = size.min() if isinstance(size, np.ndarray) else size
        if not least > 0:
            raise ValueError(f"{name}: a kernel needs a size above 0, not {least}.")


def limits(gpu: Gpu, dtype: str) -> tuple[float, float] | None:
    """Peak FLOPs and bytes per second of a card; None where either is unknown."""
    peak, bandwidth = gpu.flops_per_second(dtype), gpu.bandwidth_bytes_per_second
    return (peak, bandwidth) if peak and bandwidth else None


def kernel_seconds(
    gpu: Gpu, rates: tuple[float, float], *, flops: Num, size_bytes: Num, share: Num, compute: Key
) -> Num:
    """Seconds of one kernel; a benchmark of the card replaces the share, by what limits."""
    compute_seconds, memory_seconds = flops / rates[0], size_bytes / rates[1]
    if gpu.speeds is not None:
        own = gpu.speeds.of(compute), gpu.speeds.of("decode-bandwidth")
        if own[0] and own[1]:
            return maximum(compute_seconds / own[0].typical, memory_seconds / own[1].typical)
        bound = compute_seconds >= memory_seconds
        if own[0]:
            share = where(bound, own[0].typical, share)
        if own[1]:
            share = where(bound, share, own[1].typical)
    return KERNEL_SECONDS(roofline_seconds=maximum(compute_seconds, memory_seconds), share=share)
