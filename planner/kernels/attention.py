"""Seconds of one layer's attention, prefill and decode, by its shape.

What was measured: vLLM's attention of a layer (the kernel it picks on that card, its cache paged),
replayed from a CUDA graph: without the projections, without a launch gap.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from planner.catalog.gpu_catalog import Gpu
from planner.catalog.gpu_catalog import gpu as catalog_gpu
from planner.kernels.grid import Grid
from planner.kernels.products import VALUE_BYTES
from planner.kernels.roofline import kernel_seconds, limits, positive
from planner.kernels.tables import arrays, lender
from planner.numeric import Num, minimum

AXES = ("head_dim", "group", "lanes", "length")
SEEN_WHOLE = 0
"""A window of 0 is none."""


def pairs(tokens: Num, prefix_tokens: Num, window: Num) -> Num:
    """Query-key pairs of one sequence and head under a causal mask."""
    last = prefix_tokens + tokens
    whole = tokens * (prefix_tokens + (tokens + 1) / 2)
    if not isinstance(window, np.ndarray) and not window:
        return whole
    # Positions that a window cuts: each sees `window` keys instead of its place.
    cut = last - minimum(last, window)
    before = prefix_tokens - minimum(prefix_tokens, window)
    return whole - (cut * (cut + 1) - before * (before + 1)) / 2


def prefill_work(
    sequences: Num,
    tokens: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    prefix_tokens: Num,
    window: Num,
    value_bytes: int,
) -> tuple[Num, Num]:
    """FLOPs and bytes: queries and results once, keys and values once."""
    flops = 4.0 * sequences * heads * head_dim * pairs(tokens, prefix_tokens, window)
    positions = 2 * heads * tokens + 2 * kv_heads * (tokens + prefix_tokens)
    return flops, 1.0 * value_bytes * sequences * head_dim * positions


def decode_work(
    sequences: Num, context: Num, heads: Num, kv_heads: Num, head_dim: Num, kv_bytes: float
) -> tuple[Num, Num]:
    """FLOPs and bytes of one token a sequence: its keys and values are read once."""
    flops = 4.0 * sequences * heads * head_dim * context
    read = 2.0 * sequences * kv_heads * head_dim * context * kv_bytes
    return flops, read + 4.0 * sequences * heads * head_dim


@cache
def grid(card: str, kind: str, dtype: str) -> Grid:
    """Shares measured on a card, by head size, query heads a key head, lanes and length.

    Lanes are sequences times query heads (prefill) or times key/value heads (decode).
    """
    found = arrays(card)
    axes = tuple(found[f"{kind}_{axis}"] for axis in AXES)
    rates = limits(catalog_gpu(card), "bf16")
    assert rates is not None
    dim, group, lanes, length = np.meshgrid(*(a.astype(float) for a in axes), indexing="ij")
    if kind == "prefill":
        flops, size = prefill_work(lanes, length, 1, 1 / group, dim, 0, SEEN_WHOLE, 2)
    else:
        flops, size = decode_work(lanes, length, group, 1, dim, VALUE_BYTES[dtype])
    least = np.maximum(flops / rates[0], size / rates[1])
    measured = found[f"{kind}_{dtype}"].astype(np.float64)
    return Grid(axes, np.minimum(np.log(least * 1e3) - measured, 0.0))


def prefill_attention_seconds(
    gpu: Gpu,
    *,
    sequences: Num,
    tokens: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    prefix_tokens: Num = 0,
    window: Num = 0,
    dtype: str,
    training: bool = False,
) -> Num | None:
    """Seconds of causal attention of one layer over ``tokens`` new positions a sequence.

    ``prefix_tokens`` stand in the cache already, ``window`` is 0 for none. None where the card's
    peaks are unknown; ``ValueError`` for a size that is not above 0.
    """
    positive(sequences=sequences, tokens=tokens, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    rates = limits(gpu, "bf16" if dtype == "fp8" else dtype)
    card = lender(gpu.key, "prefill_bf16") if rates else None
    if rates is None or card is None:
        return None
    flops, size = prefill_work(
        sequences,
        tokens,
        heads,
        kv_heads,
        head_dim,
        prefix_tokens,
        window,
        2 if dtype == "fp8" else VALUE_BYTES[dtype],
    )
    share = grid(card, "prefill", "bf16")(
        head_dim, heads / kv_heads, sequences * heads, tokens + prefix_tokens
    )
    return kernel_seconds(
        gpu,
        rates,
        flops=flops,
        size_bytes=size,
        share=share,
        compute="training-compute" if training else "forward-compute",
    )


def decode_attention_seconds(
    gpu: Gpu,
    *,
    sequences: Num,
    context_tokens: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    kv_value_bytes: float,
    window: Num = 0,
    dtype: str,
) -> Num | None:
    """Seconds of one layer's attention while every sequence decodes one token.

    ``context_tokens`` is what each sequence has in its cache. None where the card's peaks are
    unknown; ``ValueError`` for a size that is not above 0.
    """
    positive(
        sequences=sequences,
        context_tokens=context_tokens,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        kv_value_bytes=kv_value_bytes,
    )
    rates = limits(gpu, "bf16" if dtype == "fp8" else dtype)
    table = "fp8" if kv_value_bytes < 2 else "bf16"
    card = lender(gpu.key, f"decode_{table}") if rates else None
    if rates is None or card is None:
        return None
    if isinstance(window, np.ndarray) or window:
        context_tokens = minimum(context_tokens, window)
    flops, size = decode_work(
        sequences, context_tokens, heads, kv_heads, head_dim, kv_value_bytes
    )
    share = grid(card, "decode", table)(
        head_dim, heads / kv_heads, sequences * kv_heads, context_tokens
    )
    return kernel_seconds(
        gpu, rates, flops=flops, size_bytes=size, share=share, compute="forward-compute"
    )
