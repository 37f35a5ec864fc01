"""FLOPs of a decoder-only transformer and the seconds they take: the roofline.

A matrix product of ``m x k`` and ``k x n`` is ``2 m k n`` FLOPs; causal attention counts
the pairs it needs, not the square. Seconds are FLOPs over the share of the dense peak
that published runs reach (``efficiencies.json``), so whatever those runs spend on norms,
losses and waiting is inside the share. Sizes may be arrays; a card without a published
peak for the dtype gives None, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from planner.catalog.architecture import Architecture
from planner.catalog.efficiencies import Key, typical
from planner.catalog.gpu_catalog import Gpu
from planner.formulas.duration import Rate
from planner.formulas.parameters import (
    active_experts_parameter_count,
    projections_parameter_count,
)
from planner.numeric import Num

KAPLAN = "Kaplan et al. 2020 (arXiv 2001.08361), section 2.1, counted per matrix"

LAYERS_FLOPS = Rate(
    "GEMMs of the layers",
    "2 * tokens * (projections + experts)",
    unit="FLOPs",
    source=KAPLAN,
    why="Each weight of a matrix that a token meets takes one multiplication and one addition. "
    "Projections are q and o over all heads, k and v over the key/value heads, those of the MLP "
    "(three if it is gated), and the router, which scores every expert; of the experts' weights a "
    "token meets those of the few that it is routed to.",
    ignores="norms, activation functions, rotary embedding and biases (under 1%); sorting, and the "
    "rows that small groups leave unused in a kernel's tiles; recurrences of linear attention, "
    "which have no weights. Of a measured model every weight counts, norms too",
)
HEAD_FLOPS = Rate(
    "language model head",
    "2 * tokens * hidden * vocab",
    unit="FLOPs",
    source=KAPLAN,
    why="Every position that gets logits is multiplied by the head's whole weight once.",
    ignores="softmax and loss, which are limited by memory rather than by FLOPs",
)
PAIRS = Rate(
    "query-key pairs under a causal mask",
    "tokens * (minimum(row_tokens, window) * (minimum(row_tokens, window) + 1) / 2"
    " + (row_tokens - minimum(row_tokens, window)) * minimum(row_tokens, window)) / row_tokens",
    unit="positions",
    source="Dao et al. 2022 (FlashAttention) for half of the square; window as in Mistral 7B",
    why="Position i attends to i tokens, but at most to those in the sliding window.",
    ignores="blocks that a kernel computes and masks, and eager attention, which does the square",
)
ATTENTION_FLOPS = Rate(
    "attention scores and values of one layer",
    "4 * heads * head_dim * pairs",
    unit="FLOPs",
    source="Dao et al. 2022 (FlashAttention), section 4",
    why="In every query head each query-key pair costs head_dim multiply-adds for its score and as "
    "many for its value.",
)
BACKWARD_FLOPS = Rate(
    "backward",
    "linear_flops * (1 + weights_train) + 2.5 * attention_flops + recomputed_flops",
    unit="FLOPs",
    source="FlashAttention-2 (arXiv 2307.08691), section 3: five products back to two forward",
    why="Each matrix takes one GEMM for its input's gradient and, if it trains, one for its own "
    "gradient; attention recomputes its scores; gradient checkpointing repeats the layers' "
    "forward.",
    ignores="adapters, and the first layer's input gradient that a frozen embedding saves",
)
COMPUTE_SECONDS = Rate(
    "computation",
    "flops / (peak_flops_per_second * share)",
    unit="seconds",
    source="Williams et al. 2009 (roofline), with the share that published runs reach",
    why="Training and log-probability passes are limited by GEMMs.",
    ignores="small matrices, small models and eager kernels, which reach a smaller share",
)

WHOLE_ROW = 2**62
"""A window that no row reaches."""


def layers_flops(arch: Architecture, *, tokens: Num) -> Num:
    """FLOPs of the matrices of all layers over ``tokens`` positions, attention left out.

    The weights are those of the products on the layers' tape (:mod:`planner.formulas.parameters`).
    """
    return LAYERS_FLOPS(
        tokens=1.0 * tokens,
        projections=projections_parameter_count(arch),
        experts=active_experts_parameter_count(arch),
    )


def head_flops(arch: Architecture, *, tokens: Num) -> Num:
    """FLOPs of the head over ``tokens`` positions."""
    return HEAD_FLOPS(tokens=1.0 * tokens, hidden=arch.hidden, vocab=arch.vocab)


def attention_flops(arch: Architecture, *, tokens: Num, row_tokens: Num) -> Num:
    """FLOPs of scores and values of all layers, over rows of ``row_tokens``."""
    tokens, row_tokens = 1.0 * tokens, 1.0 * row_tokens
    whole = PAIRS(tokens=tokens, row_tokens=row_tokens, window=WHOLE_ROW)
    pairs = (arch.cache_layers - arch.sliding_layers) * whole
    if arch.sliding_layers:
        window = PAIRS(tokens=tokens, row_tokens=row_tokens, window=arch.sliding_window)
        pairs = pairs + arch.sliding_layers * window
    return ATTENTION_FLOPS(heads=arch.heads, head_dim=arch.head_dim, pairs=pairs)


def forward_flops(arch: Architecture, *, tokens: Num, row_tokens: Num, head: bool) -> Num:
    """FLOPs of one forward, as floats (exact up to 2**53).

    Args:
        arch: the model.
        tokens: positions in all rows together.
        row_tokens: positions of one row, which attention does not leave.
        head: whether every position gets logits.
    """
    linear = layers_flops(arch, tokens=tokens)
    if head:
        linear = linear + head_flops(arch, tokens=tokens)
    return linear + attention_flops(arch, tokens=tokens, row_tokens=row_tokens)


def backward_flops(
    arch: Architecture,
    *,
    tokens: Num,
    row_tokens: Num,
    recompute: bool,
    weights_train: bool,
    head: bool = True,
) -> Num:
    """FLOPs of one backward; ``recompute`` repeats the layers, not the head."""
    layers = layers_flops(arch, tokens=tokens)
    attention = attention_flops(arch, tokens=tokens, row_tokens=row_tokens)
    return BACKWARD_FLOPS(
        linear_flops=layers + head_flops(arch, tokens=tokens) if head else layers,
        attention_flops=attention,
        weights_train=int(weights_train),
        recomputed_flops=layers + attention if recompute else 0,
    )


def compute_rates(gpu: Gpu, *, dtype: str, key: Key) -> dict[str, Any] | None:
    """Peak and share of computation; None when the card's peak is unknown."""
    peak = gpu.flops_per_second(dtype)
    if peak is None:
        return None
    return {"peak_flops_per_second": peak, "share": typical(key, gpu)}


def compute_seconds(gpu: Gpu, *, flops: Num, dtype: str, key: Key) -> Num | None:
    """Seconds of FLOPs at the share ``key``; None when the card's peak is unknown."""
    rates = compute_rates(gpu, dtype=dtype, key=key)
    return None if rates is None else COMPUTE_SECONDS(flops=flops, **rates)


@lru_cache(maxsize=128)
def memory_rates(gpu: Gpu) -> Mapping[str, Any] | None:
    """Bandwidth and share of an update; None when the card's bandwidth is unknown."""
    bandwidth = gpu.bandwidth_bytes_per_second
    if bandwidth is None:
        return None
    share = typical("optimizer-bandwidth", gpu)
    return {"bandwidth_bytes_per_second": bandwidth, "share": share}
