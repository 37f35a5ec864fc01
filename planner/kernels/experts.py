"""Seconds of one layer's experts on one GPU, by their shape and the tokens that meet them.

What was measured: vLLM's fused experts (three products, the activation and the sum over a token's
experts; routing given), replayed from a CUDA graph. Tokens fall on experts by a power law
(exponent 1.2), so imbalance is inside the share; dispatch between GPUs is not.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from planner.catalog.gpu_catalog import Gpu
from planner.catalog.gpu_catalog import gpu as catalog_gpu
from planner.kernels.grid import Curve
from planner.kernels.products import RESULT_BYTES, TABLE_OF, VALUE_BYTES
from planner.kernels.roofline import kernel_seconds, limits, positive
from planner.kernels.tables import arrays, lender
from planner.numeric import Num

NEIGHBOURS = 4
CURVES = 4096


def experts_work(
    tokens: Num, hidden: Num, intermediate: Num, experts: Num, per_token: Num, dtype: str
) -> tuple[Num, Num]:
    """FLOPs and bytes: weights of every expert that a token meets once, rows in and out."""
    flops = 6.0 * tokens * per_token * hidden * intermediate
    met = experts * (1.0 - (1.0 - per_token / experts) ** tokens)
    weights = 3.0 * met * hidden * intermediate * VALUE_BYTES[dtype]
    rows = tokens * (1.0 + per_token) * (hidden + intermediate) * RESULT_BYTES[dtype]
    return flops, weights + rows


@cache
def _curves(card: str, dtype: str) -> tuple[np.ndarray, tuple[Curve, ...]]:
    """Logarithms of the measured shapes, and shares by tokens an expert of each."""
    found = arrays(card)
    shapes, tokens = found[f"experts_{dtype}_shapes"], found[f"experts_{dtype}_tokens"]
    rates = limits(catalog_gpu(card), dtype)
    assert rates is not None
    curves = []
    for shape, measured in zip(shapes, found[f"experts_{dtype}"].astype(float), strict=True):
        known = ~np.isnan(measured)
        hidden, inter, experts, per_token = (float(size) for size in shape)
        counts = tokens[known].astype(float)
        flops, size = experts_work(counts, hidden, inter, experts, per_token, dtype)
        least = np.maximum(flops / rates[0], size / rates[1])
        shares = np.minimum(np.log(least * 1e3) - measured[known], 0.0)
        curves.append(Curve(np.log(counts * per_token / experts), shares))
    return np.log(shapes.astype(float)), tuple(curves)


@lru_cache(CURVES)
def _curve(card: str, dtype: str, *shape: float) -> Curve:
    """Shares by tokens an expert between the nearest shapes, by inverse squared distance."""
    shapes, curves = _curves(card, dtype)
    apart = np.sum((shapes - np.log(shape)) ** 2, axis=1)
    nearest = np.argsort(apart, kind="stable")[:NEIGHBOURS]
    x = curves[nearest[0]].x
    if apart[nearest[0]] < 1e-9:
        return curves[nearest[0]]
    weights = 1 / apart[nearest]
    lines = [np.interp(x, curves[index].x, curves[index].y) for index in nearest]
    return Curve(x, np.average(lines, axis=0, weights=weights))


def experts_seconds(
    gpu: Gpu,
    *,
    tokens: Num,
    hidden: Num,
    expert_intermediate: Num,
    experts: Num,
    experts_per_token: Num,
    dtype: str,
    training: bool = False,
) -> Num | None:
    """Seconds of the forward of one layer's routed experts for ``tokens`` tokens.

    ``experts`` are those that this GPU holds and ``experts_per_token`` those of them that a token
    meets on average. None where the card's peaks are unknown; ``ValueError`` for a size that is
    not above 0.
    """
    shape = (hidden, expert_intermediate, experts, experts_per_token)
    positive(
        tokens=tokens,
        hidden=hidden,
        expert_intermediate=expert_intermediate,
        experts=experts,
        experts_per_token=experts_per_token,
    )
    rates = limits(gpu, dtype)
    table = TABLE_OF[dtype]
    card = lender(gpu.key, f"experts_{table}") if rates else None
    if rates is None or card is None:
        return None
    flops, size = experts_work(tokens, *shape, dtype)
    filling = tokens * (1.0 * experts_per_token / experts)
    if np.ndarray not in map(type, shape):
        share = _curve(card, table, *shape)(filling)
    else:
        share = _by_shape(card, table, filling, *shape)
    return kernel_seconds(
        gpu,
        rates,
        flops=flops,
        size_bytes=size,
        share=share,
        compute="training-compute" if training else "forward-compute",
    )


def _by_shape(card: str, table: str, filling: Num, *shape: Num) -> np.ndarray:
    """Shares where the shape itself varies: one curve for each shape that occurs."""
    sizes = np.broadcast_arrays(*shape)
    found, which = np.unique(
        np.stack([size.ravel() for size in sizes]), axis=1, return_inverse=True
    )
    at, index = np.broadcast_arrays(filling, which.reshape(sizes[0].shape))
    share = np.empty(at.shape)
    for number, own in enumerate(found.T):
        here = index == number
        share[here] = _curve(card, table, *map(float, own))(at[here])
    return share
