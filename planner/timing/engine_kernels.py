"""Seconds of the kernels of one forward that depend on its number of rows alone, as curves.

Made once for a model on a card, at every size that is captured in a graph and some beyond, and read
for every plan. Kernels' seconds come from :mod:`planner.kernels`; a card whose peaks are unknown
gives None.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from planner.catalog.architecture import Architecture
from planner.catalog.gpu_catalog import Gpu
from planner.formulas.communication import all_gather_seconds, all_reduce_seconds
from planner.formulas.compute import memory_rates
from planner.formulas.decoding import SAMPLER, SMALL_KERNELS
from planner.formulas.parameters import (
    active_layers_parameter_count,
    expert_width,
    layer_weights,
)
from planner.kernels import experts_seconds, products_seconds, reduce_seconds
from planner.kernels.explanation import Kind
from planner.kernels.grid import Line
from planner.kernels.tables import arrays, loan
from planner.numeric import Num, maximum
from planner.values.dtypes import WITH_FP8

CAPTURED = 512
"""Rows of the largest CUDA graph: vLLM 0.11 and later, ``max_cudagraph_capture_size``."""
KNOTS = np.array(
    (1, 2, 4, *range(8, 256, 8), *range(256, CAPTURED, 16), *(512 * 2**n for n in range(8))),
    dtype=np.float64,
)
"""Numbers of rows at which a forward is looked up: every captured size, then doubled."""
SIZES = [*map(int, KNOTS)]
MOST_ROWS = float(KNOTS[-1])
DENSE_KERNELS, SPARSE_KERNELS, SAMPLER_KERNELS = 5, 9, 10
SAMPLED_BYTES, LOGPROB_BYTES = 42, 16
"""Read and written of one vocabulary entry; see :data:`planner.formulas.decoding.SAMPLER`."""


class Parts(NamedTuple):
    """Seconds of one forward by kind of kernel, attention left out."""

    products: Num
    small: Num
    reductions: Num
    head: Num
    sampler: Num

    @property
    def layers(self) -> Num:
        """Of the layers alone."""
        return self.products + self.small + self.reductions


def parts_of(
    arch: Architecture,
    gpu: Gpu,
    *,
    rows: Num,
    dtype: str,
    weights: str,
    tensor_parallel: int,
    expert_parallel: bool,
    logprobs: bool,
) -> Parts | None:
    """Of a forward of so many rows, all of which meet the head.

    ``weights`` is the dtype of the layers' products. Beyond the last knot, which no card is wide
    enough to notice, twice the rows take twice as long.
    """
    found = _curves(arch, gpu, dtype, weights, tensor_parallel, expert_parallel, logprobs)
    if found is None:
        return None
    more = maximum(rows / MOST_ROWS, 1.0)
    return Parts(*(one(rows) * more for one in found))


@lru_cache(maxsize=1024)
def _curves(
    arch: Architecture,
    gpu: Gpu,
    dtype: str,
    weights: str,
    tensor_parallel: int,
    expert_parallel: bool,
    logprobs: bool,
) -> tuple[Line, ...] | None:
    """Seconds at every number of rows, by kind of kernel.

    Whoever has fewer rows could compute more of them, so no number of rows takes longer than a
    larger one: where tables say otherwise, the larger one's time stands.
    """
    found = (
        _products(arch, gpu, weights, tensor_parallel, expert_parallel),
        _small(arch, gpu, dtype, tensor_parallel),
        _reductions(arch, gpu, dtype, tensor_parallel),
        _head(arch, gpu, dtype, tensor_parallel),
        _sampler(arch, gpu, logprobs),
    )
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    return tuple(Line(KNOTS, np.minimum.accumulate((one + 0 * KNOTS)[::-1])[::-1]) for one in known)


def _products(
    arch: Architecture, gpu: Gpu, dtype: str, parts: int, whole_experts: bool
) -> Num | None:
    found: list[Num | None] = []
    for times, kind, sizes in layer_products(arch, KNOTS, dtype, parts, whole_experts):
        look = experts_seconds if kind == "experts" else products_seconds
        found.append(_times(times, look(gpu, **sizes)))
    return _times(1, *found)


def layer_products(
    arch: Architecture, rows: Num, dtype: str, parts: int, whole_experts: bool
) -> Iterator[tuple[float, Kind, dict[str, Any]]]:
    """Products of one forward of so many rows: how many alike, their kind and their sizes."""

    def product(times: float, inner: float, outer: float) -> tuple[float, Kind, dict[str, Any]]:
        sizes = {"rows": rows, "inner": inner, "outer": outer, "dtype": dtype}
        return times, "products", sizes

    if arch.measured and not expert_width(arch):
        outer = active_layers_parameter_count(arch) / arch.layers / arch.hidden / parts
        yield product(arch.layers, arch.hidden, outer)
        return
    for times, inner, outer in _listed(arch, parts) if arch.measured else _derived(arch, parts):
        yield product(times, inner, outer)
    if arch.sparse_layers:
        routed: dict[str, Any] = {
            "tokens": rows,
            "hidden": arch.hidden,
            "expert_intermediate": expert_width(arch) / (1 if whole_experts else parts),
            "experts": arch.experts,
            "experts_per_token": arch.experts_per_token,
            "spread": parts if whole_experts else 1,
            "dtype": dtype,
        }
        yield arch.sparse_layers, "experts", routed


def _derived(arch: Architecture, parts: int) -> Iterator[tuple[float, float, float]]:
    """Products outside the routed experts of a derived sum: how many alike, both widths a GPU."""
    heads, kv_heads = arch.heads / parts, max(arch.kv_heads / parts, 1.0)
    yield arch.layers, arch.hidden, (heads + 2 * kv_heads) * arch.head_dim
    yield arch.layers, heads * arch.head_dim, arch.hidden
    if arch.layers > arch.sparse_layers:
        dense, wide = arch.layers - arch.sparse_layers, arch.intermediate / parts
        yield dense, arch.hidden, (1 + arch.gated) * wide
        yield dense, wide, arch.hidden
    if arch.sparse_layers:
        yield arch.sparse_layers, arch.hidden, arch.experts


def _listed(arch: Architecture, parts: int) -> Iterator[tuple[float, float, float]]:
    """The same of a measured mixture, from the list of its weights.

    As vLLM lays them out (model_executor/models/deepseek_v2.py of 002d6073, read): matrices of one
    module that read the same rows are one product, and GPUs share its outputs; what gives the
    stream back shares its inputs. Routers and latents (``q_a_proj``, ``kv_a_proj_with_mqa``) are
    whole on each.
    """
    merged: dict[tuple[Any, ...], float] = {}
    for one in layer_weights(arch):
        inner, name = one.in_features or arch.hidden, one.module
        outer = one.elements / inner
        whole = one.kind == "router" or "_a_proj" in name
        back = outer == arch.hidden and name[0] not in "qkv"
        if one.kind in ("linear", "router"):
            alike = one.name.rsplit(name, 1)[0], whole, back, one.count, one.layers, inner
            least = arch.head_dim if name in ("k_proj", "v_proj") else 1.0
            merged[alike] = merged.get(alike, 0.0) + (
                outer if whole or back else max(outer / parts, least)
            )
    for (_, whole, back, count, _, inner), outer in merged.items():
        yield count, inner if whole or not back else inner / parts, outer


def _small(arch: Architecture, gpu: Gpu, dtype: str, parts: int) -> Num | None:
    least, rates = least_kernel_seconds(gpu), memory_rates(gpu)
    if least is None or rates is None:
        return None
    heads, kv_heads = arch.heads / parts, max(arch.kv_heads / parts, 1.0)
    # Two norms read and write rows and residual, rotation its heads, the cache its keys and values.
    values = 8 * arch.hidden + 2 * (heads + kv_heads) * arch.head_dim + 4 * kv_heads * arch.head_dim
    states = 4.0 * arch.stateful_layers * arch.state_values
    kinds = (
        (arch.layers - arch.sparse_layers, DENSE_KERNELS, 3 * arch.intermediate / parts, states),
        (arch.sparse_layers, SPARSE_KERNELS, 2.0 * arch.experts, 0.0),
    )
    return sum(
        SMALL_KERNELS(
            layers=layers,
            kernels=kernels,
            least_seconds=least,
            rows=KNOTS,
            values=values + wide,
            value_bytes=WITH_FP8[dtype],
            state_bytes=kept,
            **rates,
        )
        for layers, kernels, wide, kept in kinds
    )


def _reductions(arch: Architecture, gpu: Gpu, dtype: str, parts: int) -> Num | None:
    if parts == 1:
        return 0.0
    size = KNOTS * arch.hidden * WITH_FP8[dtype]
    seconds = reduce_seconds(gpu, size_bytes=size, ranks=parts)
    if seconds is None:
        seconds = all_reduce_seconds(gpu, size_bytes=size, ranks=parts, gpus_per_node=parts)
    return _times(2 * arch.layers, seconds)


def _head(arch: Architecture, gpu: Gpu, dtype: str, parts: int) -> Num | None:
    product = products_seconds(gpu, **head_product(arch, KNOTS, dtype, parts))
    return _times(1, product, gathered_logits(arch, gpu, KNOTS, dtype, parts))


def head_product(arch: Architecture, rows: Num, dtype: str, parts: int) -> dict[str, Any]:
    """Sizes of the product with the vocabulary, or with one GPU's part of it."""
    return {"rows": rows, "inner": arch.hidden, "outer": arch.vocab / parts, "dtype": dtype}


def gathered_logits(arch: Architecture, gpu: Gpu, rows: Num, dtype: str, parts: int) -> Num | None:
    """Seconds until every GPU of an engine has the logits of the whole vocabulary."""
    if parts == 1:
        return 0.0
    size = rows * arch.vocab * WITH_FP8[dtype]
    return all_gather_seconds(gpu, size_bytes=size, ranks=parts, gpus_per_node=parts)


def _sampler(arch: Architecture, gpu: Gpu, logprobs: bool) -> Num | None:
    least, rates = least_kernel_seconds(gpu), memory_rates(gpu)
    if least is None or rates is None:
        return None
    return SAMPLER(
        kernels=SAMPLER_KERNELS,
        least_seconds=least,
        sequences=KNOTS,
        vocab=arch.vocab,
        value_bytes=SAMPLED_BYTES + LOGPROB_BYTES * logprobs,
        **rates,
    )


def least_kernel_seconds(gpu: Gpu) -> float | None:
    """The shortest time of any product that was measured on the card whose tables it uses."""
    lent = loan(gpu.key, "products_bf16")
    if lent is None:
        return None
    return float(np.exp(np.nanmin(arrays(lent.card)["products_bf16"].astype(np.float64)))) / 1e3


def _times(times: Num, *seconds: Num | None) -> Num | None:
    known = [one for one in seconds if one is not None]
    return times * sum(known) if len(known) == len(seconds) else None
