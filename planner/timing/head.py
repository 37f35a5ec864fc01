"""Seconds of the language model head and of the loss behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.formulas import memory_bound, passes
from planner.formulas.compute import head_flops
from planner.formulas.logits import Head
from planner.formulas.logits.chunks import TOKEN_CHUNK
from planner.formulas.logits.tiles import TOKEN_TILE
from planner.numeric import Num, maximum, minimum
from planner.phases.vocabulary import inference_head, training_head
from planner.term import TimeTerm
from planner.timing import layers, look_ups
from planner.timing.passing import Passing
from planner.timing.terms import by_memory, by_share, read
from planner.values.dtypes import BYTES


def causes(it: Passing) -> Iterator[TimeTerm]:
    """Products of scored positions with the vocabulary, and everything over the logits."""
    row, arch = it.row, it.arch
    of = (inference_head if row.run == "score" else training_head)(it.scene, row.role)
    trains = it.weights_train
    shape = (layers.Shape(arch.hidden, arch.vocab, 1.0),)
    rows = _at_once(of, row.scored_tokens / it.forwards)
    flops = head_flops(arch, tokens=row.scored_tokens)
    times, found = 1, layers.products_share(it.gpu, shape, it.dtype, False, False)
    if it.backward:
        if row.scored_again:
            again = row.scored_again * flops
            yield by_share(
                it,
                passes.HEAD,
                again,
                read(found, rows),
                label="LM head GEMMs, recomputed",
                look_ups=(look_ups.products, it.gpu, shape, it.dtype, False, False, rows),
            )
        times, found = 1 + trains, layers.products_share(it.gpu, shape, it.dtype, True, trains)
    gradients = it.backward, it.backward and trains
    yield by_share(
        it,
        passes.HEAD,
        times * flops,
        read(found, rows),
        factors=passes.BACK_FACTORS if it.backward else None,
        look_ups=(look_ups.products, it.gpu, shape, it.dtype, *gradients, rows),
    )
    sizes: dict[str, Any] = {
        "tokens": row.scored_tokens,
        "vocab": arch.vocab,
        "wide": BYTES[of.logits_dtype],
        "scaled": of.temperature_scaled,
        "entropy": of.entropy or row.run == of.way.entropy_of,
        "fused": of.logits == "fused" or (of.logits == "chunked" and of.chunk_compile),
    }
    moved = memory_bound.loss_bytes(backward=it.backward, **sizes)
    if it.backward and row.scored_again:
        moved = moved + row.scored_again * memory_bound.loss_bytes(backward=False, **sizes)
    yield by_memory(it, "loss over the vocabulary", moved)


def _at_once(of: Head, rows: Num) -> Num:
    """Rows of one product with the vocabulary."""
    if of.logits == "chunked":
        size = TOKEN_CHUNK if of.chunk_tokens is None else of.chunk_tokens
        return maximum(minimum(rows, size), 1)
    return minimum(rows, TOKEN_TILE) if of.logits == "fused" else rows
