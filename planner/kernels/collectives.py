"""Seconds of a collective among the GPUs of one node.

What was measured: vLLM's own all-reduce in bf16, replayed from a CUDA graph (its custom kernel for
what is small, NCCL above), and NCCL's collectives by nccl-tests in fp16. All GPUs of a collective
sit in one node and do nothing else meanwhile.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from planner.catalog.gpu_catalog import Gpu
from planner.kernels.grid import Grid
from planner.kernels.question import positive
from planner.kernels.tables import arrays, loan
from planner.numeric import Num, where

Collective = Literal["all_gather", "reduce_scatter", "all_reduce", "alltoall"]


@cache
def grid(card: str, engine: str, table: str) -> Grid:
    """Bytes per second measured on a card, by GPUs and bytes."""
    found = arrays(card)
    ranks, sizes = found[f"{engine}_ranks"], found[f"{engine}_bytes"]
    measured = found[table].astype(np.float64)
    return Grid((ranks, sizes), measured, np.log(sizes * 1e3) - measured, (1, 0))


def reduce_seconds(gpu: Gpu, *, size_bytes: Num, ranks: Num) -> Num | None:
    """Seconds of vLLM's all-reduce of ``size_bytes`` over ``ranks`` GPUs of a node.

    None without a table of this very card, or above the ranks that were measured: a link is no
    share of a peak that another card could lend. ``ValueError`` for a size that is not a finite
    number above 0.
    """
    return _seconds(gpu, "reduce", "reduce", size_bytes, ranks)


def collective_seconds(
    gpu: Gpu, *, kind: Collective, size_bytes: Num, ranks: Num
) -> Num | None:
    """Seconds of a collective of NCCL over ``ranks`` GPUs of a node; None as above.

    ``size_bytes`` is the whole: what every GPU has after a gather, what it has before a
    reduce-scatter, and for an all-reduce or all-to-all what it has at both ends.
    """
    return _seconds(gpu, "nccl", f"nccl_{kind}", size_bytes, ranks)


def _seconds(gpu: Gpu, engine: str, table: str, size_bytes: Num, ranks: Num) -> Num | None:
    positive(size_bytes=size_bytes, ranks=ranks)
    lender = loan(gpu.key, table)
    if lender is None or lender.card != gpu.key:
        return None
    rates = grid(gpu.key, engine, table)
    if np.max(ranks) > rates.axes[0][-1]:
        return None
    return where(ranks > 1, size_bytes / rates(ranks, size_bytes), 0.0)
