"""Matrix products at the shapes of real layers: forward and the backward's two. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import torch

from planner import catalog
from planner.benchmark.run.case import Case, Run, Sizes
from planner.catalog.architecture import Architecture
from planner.values.dtypes import TORCH_NAMES


def cases(sizes: Sizes, device: str) -> Iterator[Case]:
    """The widest projection of every model's layer, and its head; fp32 once."""
    for number, model in enumerate(sizes.models):
        arch = architecture(model)
        for tokens in sizes.tokens:
            inner, outer = arch.hidden, arch.intermediate
            yield _case("forward", model, (tokens, inner, outer), device)
            yield _case("input gradient", model, (tokens, outer, inner), device)
            yield _case("weight gradient", model, (outer, tokens, inner), device)
        yield _case("head forward", model, (sizes.head_tokens, arch.hidden, arch.vocab), device)
        if not number:
            shape = (sizes.tokens[-1], arch.hidden, arch.intermediate)
            yield _case("forward", model, shape, device, "fp32")


def architecture(model: str) -> Architecture:
    """Dimensions of a model of the catalog."""
    found = catalog.model(model).architecture
    assert found is not None, model
    return found


def _case(
    name: str, model: str, shape: tuple[int, int, int], device: str, dtype: str = "bf16"
) -> Case:
    """``rows x inner`` times ``inner x columns``, in the memory order of ``nn.Linear``."""
    return Case(
        part="products",
        name=name,
        model=model,
        sizes=dict(zip(("rows", "inner", "columns"), shape, strict=True)),
        dtype=dtype,
        flops=2.0 * prod(shape),
        of="dense peak",
        make=partial(_product, name, shape, dtype, device),
    )


def _product(name: str, shape: tuple[int, int, int], dtype: str, device: str) -> Run:
    rows, inner, columns = shape
    made = partial(torch.randn, dtype=getattr(torch, TORCH_NAMES[dtype]), device=device)
    # A weight is stored [columns, inner]; of its gradient both factors were made as [tokens, …].
    one = made(inner, rows).t() if name == "weight gradient" else made(rows, inner)
    other = made(columns, inner).t() if name.endswith("forward") else made(inner, columns)
    return partial(torch.mm, one, other, out=one.new_empty(rows, columns))
