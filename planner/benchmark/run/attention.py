"""Causal attention alone, forward and with its backward, by row length. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from planner.benchmark.run.case import Case, Run, Sizes
from planner.benchmark.run.products import architecture
from planner.formulas.compute import attention_flops

BACKWARD = 2.5
"""Of the forward's FLOPs (FlashAttention-2, section 3)."""


def cases(sizes: Sizes, device: str) -> Iterator[Case]:
    """All query heads of the first model, as many keys and values: the kernel's own rate."""
    model = sizes.models[0]
    arch = replace(architecture(model), layers=1, sliding_layers=0)
    for row_tokens in sizes.attention_tokens:
        rows = max(sizes.attention_positions // row_tokens, 1)
        forward = float(attention_flops(arch, tokens=rows * row_tokens, row_tokens=row_tokens))
        shape = (rows, arch.heads, row_tokens, arch.head_dim)
        for name, times in (("forward", 1), ("forward and backward", 1 + BACKWARD)):
            yield Case(
                part="attention",
                name=name,
                model=model,
                sizes={"rows": rows, "heads": arch.heads, "row tokens": row_tokens},
                dtype="bf16",
                flops=times * forward,
                of="dense peak",
                make=partial(_attention, shape, device, name != "forward"),
            )


def _attention(shape: tuple[int, ...], device: str, backward: bool) -> Run:
    made = partial(torch.randn, shape, dtype=torch.bfloat16, device=device)
    queries, keys, values = (made(requires_grad=backward) for _ in range(3))
    gradient = made()

    def run() -> object:
        out = scaled_dot_product_attention(queries, keys, values, is_causal=True)
        given = (queries, keys, values)
        return torch.autograd.grad(out, given, gradient) if backward else out

    return run
