"""Seconds of one matrix product by its shape.

What was measured: ``torch.nn.functional.linear`` (bf16) and vLLM's scaled product (fp8, with the
quantisation of its input), replayed from a CUDA graph over several weights: kernels back to back,
without a launch gap.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from planner.catalog.gpu_catalog import Gpu
from planner.catalog.gpu_catalog import gpu as catalog_gpu
from planner.kernels.grid import Grid
from planner.kernels.roofline import kernel_seconds, limits, positive
from planner.kernels.tables import arrays, lender
from planner.numeric import Num

VALUE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1}
RESULT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 2}
TABLE_OF = {"bf16": "bf16", "fp16": "bf16", "fp32": "bf16", "fp8": "fp8"}
"""fp16 runs the kernels of bf16. Nobody measured fp32: it is taken to reach the share of its own
peak that bf16 reaches of its own at the same shape."""


def product_flops(rows: Num, inner: Num, outer: Num) -> Num:
    """A multiplication and an addition each."""
    return 2.0 * rows * inner * outer


def product_bytes(rows: Num, inner: Num, outer: Num, dtype: str) -> Num:
    """Both operands read once, the result written once."""
    return VALUE_BYTES[dtype] * (1.0 * rows * inner + 1.0 * inner * outer) + RESULT_BYTES[
        dtype
    ] * (1.0 * rows * outer)


@cache
def grid(card: str, dtype: str) -> Grid:
    """Shares measured on a card, by rows, outer and inner size."""
    found = arrays(card)
    axes = tuple(found[f"products_{axis}"] for axis in ("rows", "outer", "inner"))
    rates = limits(catalog_gpu(card), dtype)
    assert rates is not None
    rows, outer, inner = np.meshgrid(*(axis.astype(float) for axis in axes), indexing="ij")
    least = np.maximum(
        product_flops(rows, inner, outer) / rates[0],
        product_bytes(rows, inner, outer, dtype) / rates[1],
    )
    measured = found[f"products_{dtype}"].astype(np.float64)
    return Grid(axes, np.minimum(np.log(least * 1e3) - measured, 0.0))


def products_seconds(
    gpu: Gpu, *, rows: Num, inner: Num, outer: Num, dtype: str, training: bool = False
) -> Num | None:
    """Seconds to multiply ``rows x inner`` by ``inner x outer``, once.

    ``training`` says which share of a card's own benchmark replaces the table. None where the
    card's peaks are unknown; ``ValueError`` for a size that is not above 0.
    """
    positive(rows=rows, inner=inner, outer=outer)
    rates = limits(gpu, dtype)
    table = TABLE_OF[dtype]
    card = lender(gpu.key, f"products_{table}") if rates else None
    if rates is None or card is None:
        return None
    return kernel_seconds(
        gpu,
        rates,
        flops=product_flops(rows, inner, outer),
        size_bytes=product_bytes(rows, inner, outer, dtype),
        share=grid(card, table)(rows, outer, inner),
        compute="training-compute" if training else "forward-compute",
    )
