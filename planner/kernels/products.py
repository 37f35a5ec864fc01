"""Seconds of one matrix product by its shape.

What was measured: vLLM's ``RowParallelLinear`` without a bias (``torch.nn.functional.linear`` in
bf16; in fp8 its scaled product with the static quantisation of the input), six layers with weights
of their own on the same input, replayed from a CUDA graph after three warm-ups, a sixth of it: the
kernel back to back with its like, without host time and without a gap before the launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from planner.catalog.efficiencies import Key
from planner.catalog.gpu_catalog import Gpu
from planner.catalog.gpu_catalog import gpu as catalog_gpu
from planner.kernels.grid import Grid
from planner.kernels.question import Asked, Question, lent, limits, log_shares, positive, seconds_of
from planner.kernels.tables import arrays
from planner.numeric import Num
from planner.values.dtypes import BYTES, WITH_FP8

AXES = ("rows", "outer", "inner")
HOLES = (0, 1, 2)
"""Axes along which holes are filled, in turn."""
RESULT_BYTES = {**BYTES, "fp8": 2}
TABLE_OF = {"bf16": "bf16", "fp16": "bf16", "fp32": "bf16", "fp8": "fp8"}
"""fp16 runs at the rates of bf16. Nobody measured fp32: it is taken to reach the share of its own
roofline (the peak without tensor cores) that bf16 reaches of its own at the same shape."""
COMPUTE: Mapping[bool, Key] = {False: "forward-compute", True: "training-compute"}
"""Efficiency of a card's own benchmark, without and with training."""


def work(rows: Num, inner: Num, outer: Num, dtype: str) -> tuple[Num, Num]:
    """FLOPs, and bytes: both operands read once, the result written once."""
    moved = WITH_FP8[dtype] * inner * (1.0 * rows + outer) + RESULT_BYTES[dtype] * rows * outer
    return 2.0 * rows * inner * outer, moved


@cache
def grid(card: str, dtype: str) -> Grid:
    """Shares measured on a card, by rows, outer and inner size."""
    found = arrays(card)
    axes = tuple(found[f"products_{axis}"] for axis in AXES)
    peaks = limits(catalog_gpu(card), dtype)
    assert peaks is not None
    rows, outer, inner = np.meshgrid(*(axis.astype(float) for axis in axes), indexing="ij")
    measured = found[f"products_{dtype}"].astype(np.float64)
    shares = log_shares(peaks, *work(rows, inner, outer, dtype), measured)
    return Grid(axes, measured, shares, HOLES)


def question(
    gpu: Gpu, *, rows: Num, inner: Num, outer: Num, dtype: str, training: bool = False
) -> Asked | None:
    """The product as a question, the grid that answers it and the sizes it is asked at."""
    positive(rows=rows, inner=inner, outer=outer)
    table = TABLE_OF.get(dtype, dtype)
    found = lent(gpu, dtype, f"products_{table}")
    if found is None:
        return None
    peaks, whose = found
    shares = grid(whose.card, table)
    sizes = (rows, outer * whose.stretch, inner)
    flops, moved = work(rows, inner, outer, dtype)
    asked = Question(
        gpu, peaks, whose, flops, moved, COMPUTE[training], lambda: shares(*sizes)
    )
    return asked, shares, sizes


products_seconds = seconds_of(question)
"""Seconds to multiply ``rows x inner`` by ``inner x outer``, once.

``dtype`` is ``bf16``, ``fp16``, ``fp32`` or ``fp8``; ``training`` says which efficiency of a
card's own benchmark replaces the table.
"""
