"""Shares of the peak that a model's layers reach at the shapes of one micro-batch.

Layers are alike, so a model is looked up once for all of them. Products of fixed widths become one
curve over the rows of a forward, which is kept: a sweep of a million plans reads it like one plan.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from planner.catalog.architecture import Architecture
from planner.catalog.cudnn import CUDNN_OF_TORCH, comes_first
from planner.catalog.gpu_catalog import Gpu, grouped
from planner.formulas.compute import attention_flops, layers_flops
from planner.formulas.lora import lora_weights
from planner.formulas.parameters import (
    active_experts_parameter_count,
    expert_width,
    layer_weights,
    projections_parameter_count,
)
from planner.formulas.passes import FLASH2_BY_MAJOR
from planner.kernels import experts_seconds, prefill_attention_seconds, products_seconds, tables_of
from planner.kernels.explanation import Kind
from planner.kernels.grid import Curve
from planner.numeric import Num, maximum, remembered
from planner.plan.fields import FLASH

ROWS = np.exp2(np.arange(22 * 8 + 1) / 8)
"""Rows of a forward at which a curve is drawn: eight to a doubling, up to four million."""


class Shape(NamedTuple):
    """Projections of one shape in all layers together."""

    inner: int
    outer: int
    matrices: float


Shapes = tuple[Shape, ...]


@lru_cache(maxsize=512)
def projections(arch: Architecture) -> Shapes:
    """Every matrix that all tokens meet in the layers, experts left out.

    What a measured model's list gives no widths for stands as square matrices of its width.
    """
    found: dict[tuple[int, int], float] = {}
    for weight in layer_weights(arch):
        shape = (weight.in_features, weight.out_features)
        if weight.kind in ("linear", "router") and all(shape):
            found[shape] = found.get(shape, 0) + weight.count
    listed = sum(inner * outer * count for (inner, outer), count in found.items())
    left = projections_parameter_count(arch) - listed
    if left > 0:
        square = (arch.hidden, arch.hidden)
        found[square] = found.get(square, 0) + left / arch.hidden**2
    return tuple(Shape(*shape, count) for shape, count in found.items())


@lru_cache(maxsize=512)
def adapters(arch: Architecture, rank: int, targets: tuple[str, ...]) -> Shapes:
    """Both matrices of every adapter."""
    found: dict[tuple[int, int], float] = {}
    for weight in lora_weights(arch, targets):
        for shape in ((weight.in_features, rank), (rank, weight.out_features)):
            found[shape] = found.get(shape, 0) + weight.count
    return tuple(Shape(*shape, count) for shape, count in found.items())


def elements(shapes: Shapes) -> float:
    """Weights of the shapes together; a token's FLOPs are twice as many."""
    return sum(inner * outer * count for inner, outer, count in shapes)


@lru_cache(maxsize=512)
def products_share(
    gpu: Gpu, shapes: Shapes, dtype: str, inputs: bool, weights: bool
) -> Curve | None:
    """Share of the peak by rows of a forward; None where the card's peaks are unknown.

    Of the forward, unless gradients of ``inputs`` or ``weights`` are asked for, or both.
    """
    peak = gpu.flops_per_second(dtype)
    inner, outer, count = (np.array(column, dtype=float) for column in zip(*shapes, strict=True))
    sizes = product_sizes(ROWS[:, None], inner, outer, inputs, weights)
    seconds: Num = 0.0
    for size in sizes:
        one = products_seconds(gpu, dtype=dtype, **size)
        if one is None:
            return None
        seconds = seconds + one
    flops = 2 * len(sizes) * elements(shapes) * ROWS
    return Curve(np.log(ROWS), np.log(flops / (peak * (seconds * count).sum(axis=1))))


def product_sizes(
    rows: Num, inner: Num, outer: Num, inputs: bool, weights: bool
) -> list[dict[str, Any]]:
    """The products that a matrix is met in: forward, or the gradients that are asked for."""
    found: list[dict[str, Any]] = []
    if inputs:
        found.append({"rows": rows, "inner": outer, "outer": inner})
    if weights:
        found.append({"rows": outer, "inner": rows, "outer": inner})
    return found or [{"rows": rows, "inner": inner, "outer": outer}]


@lru_cache(maxsize=512)
def experts_share(gpu: Gpu, arch: Architecture, dtype: str) -> Curve | None:
    """The same of a layer's routed experts, by tokens of a forward."""
    peak = gpu.flops_per_second(dtype)
    seconds: Num = 0.0
    for times, kind, sizes in experts_kernels(gpu, arch, ROWS, dtype):
        one = experts_seconds(gpu, **sizes) if kind == "experts" else products_seconds(gpu, **sizes)
        if one is None:
            return None
        seconds = seconds + times * one
    flops = experts_flops(arch, tokens=ROWS) / arch.sparse_layers
    return Curve(np.log(ROWS), np.log(flops / (peak * seconds)))


def experts_met(arch: Architecture, tokens: Num) -> Num:
    """Experts of a layer that so many tokens meet when they choose evenly."""
    missed = 1.0 - arch.experts_per_token / max(arch.experts, 1)
    return arch.experts * (1.0 - missed**tokens)


def experts_kernels(
    gpu: Gpu, arch: Architecture, tokens: Num, dtype: str
) -> list[tuple[Num, Kind, dict[str, Any]]]:
    """Kernels of a layer's routed experts over ``tokens``: how many alike, kind and sizes."""
    hidden, width, chosen = arch.hidden, expert_width(arch), arch.experts_per_token
    if grouped(gpu, dtype):
        sizes: dict[str, Any] = {
            "tokens": tokens,
            "hidden": hidden,
            "expert_intermediate": width,
            "experts": arch.experts,
            "experts_per_token": chosen,
            "dtype": dtype,
        }
        return [(1.0, "experts", sizes)]
    met = experts_met(arch, tokens)
    sizes = {"rows": tokens * chosen / met, "dtype": dtype}
    return [
        (met, "products", {**sizes, "inner": hidden, "outer": 2 * width}),
        (met, "products", {**sizes, "inner": width, "outer": hidden}),
    ]


def experts_flops(arch: Architecture, *, tokens: Num) -> Num:
    """FLOPs of the experts of all layers, where they are products of their own."""
    return 2.0 * tokens * active_experts_parameter_count(arch) if expert_width(arch) else 0.0


def projections_flops(arch: Architecture, *, tokens: Num) -> Num:
    """FLOPs of the layers' other products."""
    return layers_flops(arch, tokens=tokens) - experts_flops(arch, tokens=tokens)


class Attention(NamedTuple):
    """What a kernel computes, and the share of the peak that it does so at."""

    flops: Num
    share: Num
    one: tuple[Kind, dict[str, Any], Num] | None = None
    """The kernel that was looked up, its sizes and its FLOPs; None where nothing attends."""
    slower: float = 1.0
    """What the kernel that runs reaches of the one that was measured."""


@remembered
def attention(
    gpu: Gpu,
    arch: Architecture,
    *,
    how: str,
    batch_shape: str,
    torch_version: str,
    dtype: str,
    tokens: Num,
    row_tokens: Num,
    rows: Num,
    alone: Num = 0,
) -> Attention | None:
    """Attention of all layers over ``tokens`` of a step, ``rows`` of them in one forward.

    A kernel that is given a mask computes the whole square, of all that is packed in a row; where
    one sequence is (``alone``) it is given none.
    None where nothing is known of the card.
    """
    causal = attention_flops(arch, tokens=tokens, row_tokens=row_tokens)
    if not (arch.heads and arch.head_dim and arch.cache_layers):
        return Attention(causal, 1.0)
    square = batch_shape == "packed" and how not in FLASH
    length = maximum(rows, row_tokens) if square else row_tokens
    length = maximum(length, 1.0)
    sequences = maximum(rows / length, 1.0)
    peak = gpu.flops_per_second(dtype)
    one: tuple[Kind, dict[str, Any], Num]
    sizes: dict[str, Any]
    if how == "eager":
        sizes = {
            "rows": sequences * length * arch.heads,
            "inner": arch.head_dim,
            "outer": length,
            "dtype": dtype,
        }
        seconds = products_seconds(gpu, **sizes)
        one = "products", sizes, 2.0 * sizes["rows"] * arch.head_dim * length
    else:
        sizes = {
            "sequences": sequences,
            "tokens": length,
            "heads": arch.heads,
            "kv_heads": arch.kv_heads,
            "head_dim": arch.head_dim,
            "dtype": dtype,
        }
        seconds = prefill_attention_seconds(gpu, **sizes)
        flops = 2.0 * sequences * length * (length + 1) * arch.heads * arch.head_dim
        one = "prefill", sizes, flops
    if seconds is None or peak is None:
        return None
    slower = 1.0 if how == "eager" else _slower(gpu, how, torch_version)
    share = one[2] / (peak * seconds) * slower
    masked = how == "eager" or (how == "sdpa" and batch_shape != "full")
    if not masked:
        return Attention(causal, share, one, slower)
    whole = 4.0 * arch.cache_layers * arch.heads * arch.head_dim * tokens * length
    return Attention(alone * causal + (1 - alone) * whole, share, one, slower)


def _slower(gpu: Gpu, how: str, torch_version: str) -> float:
    """What FlashAttention-2 reaches of the later kernel that the card's tables have."""
    major = (gpu.compute_capability or "").partition(".")[0]
    cudnn = CUDNN_OF_TORCH.get(torch_version, 0)
    later = how == "sdpa" and comes_first(gpu.compute_capability, cudnn)
    return 1.0 if later or how == "flash_attention_3" else FLASH2_BY_MAJOR.get(major, 1.0)


@lru_cache(maxsize=128)
def evidence(gpu: Gpu) -> str:
    """Whose kernels the shares are of."""
    tables = tables_of(gpu)
    return "" if tables is None else tables.words
