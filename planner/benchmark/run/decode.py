"""One decoding step's reads: a layer's weights by few rows, and a cache by one query.

The weights are those of a whole layer, beyond a card's last-level cache; the queries of heads
that share keys and values are one block of rows, as decoding kernels have them. Imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

from planner.benchmark.run.case import Case, Run, Sizes
from planner.benchmark.run.products import architecture
from planner.catalog.architecture import Architecture

VALUE_BYTES = 2


def cases(sizes: Sizes, device: str) -> Iterator[Case]:
    """The first model's layer for each number of sequences, and its cache."""
    model = sizes.models[0]
    arch = architecture(model)
    shapes = _weights(arch)
    weight_bytes = VALUE_BYTES * sum(rows * columns for rows, columns in shapes)
    for sequences in sizes.decode_sequences:
        yield Case(
            part="decode",
            name="weights",
            model=model,
            sizes={"sequences": sequences, "bytes": weight_bytes},
            dtype="bf16",
            moved_bytes=weight_bytes,
            of="memory bandwidth",
            make=partial(_products, shapes, sequences, device),
        )
    cache = (sizes.cache_sequences, arch.kv_heads, sizes.cache_tokens, arch.head_dim)
    cache_bytes = 2 * VALUE_BYTES * prod(cache)
    yield Case(
        part="decode",
        name="keys and values",
        model=model,
        sizes={"sequences": cache[0], "context tokens": cache[2], "bytes": cache_bytes},
        dtype="bf16",
        moved_bytes=cache_bytes,
        of="memory bandwidth",
        make=partial(_cache, cache, arch.heads // arch.kv_heads, device),
    )


def _weights(arch: Architecture) -> tuple[tuple[int, int], ...]:
    """Every matrix of a layer, ``[out, in]``."""
    queries, keys = arch.heads * arch.head_dim, arch.kv_heads * arch.head_dim
    mlp = ((arch.intermediate, arch.hidden),) * (2 if arch.gated else 1)
    attention = ((queries, arch.hidden), (keys, arch.hidden), (keys, arch.hidden))
    return (*attention, (arch.hidden, queries), *mlp, (arch.hidden, arch.intermediate))


def _products(shapes: tuple[tuple[int, int], ...], sequences: int, device: str) -> Run:
    made = partial(torch.randn, dtype=torch.bfloat16, device=device)
    weights = [made(shape) for shape in shapes]
    given = {width: made(sequences, width) for _, width in shapes}

    def run() -> None:
        for weight in weights:
            linear(given[weight.shape[1]], weight)

    return run


def _cache(shape: tuple[int, int, int, int], group: int, device: str) -> Run:
    made = partial(torch.randn, dtype=torch.bfloat16, device=device)
    queries = made(shape[0], shape[1], group, shape[3])
    return partial(scaled_dot_product_attention, queries, made(shape), made(shape))
