"""Seconds of an all-reduce among the GPUs of one node.

What was measured: vLLM's own all-reduce replayed from a CUDA graph (its custom kernel for what is
small, NCCL above), bf16, inside one node.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from planner.catalog.gpu_catalog import Gpu
from planner.kernels.grid import Grid
from planner.kernels.roofline import positive
from planner.kernels.tables import arrays, lender
from planner.numeric import Num, where


@cache
def grid(card: str) -> Grid:
    """Bytes per second measured on a card, by GPUs and bytes."""
    found = arrays(card)
    axes = (found["reduce_ranks"], found["reduce_bytes"])
    return Grid(axes, np.log(axes[1] * 1e3) - found["reduce"].astype(float))


def reduce_seconds(gpu: Gpu, *, size_bytes: Num, ranks: Num) -> Num | None:
    """Seconds to sum ``size_bytes`` over ``ranks`` GPUs of a node, where every GPU gets the sum.

    None without a table of this very card, or above the ranks that were measured: a link is no
    share of a peak that another card could lend. ``ValueError`` for a size that is not above 0.
    """
    positive(size_bytes=size_bytes, ranks=ranks)
    if lender(gpu.key, "reduce") != gpu.key:
        return None
    rates = grid(gpu.key)
    if np.max(ranks) > rates.axes[0][-1]:
        return None
    return where(ranks > 1, size_bytes / rates(ranks, size_bytes), 0.0)
