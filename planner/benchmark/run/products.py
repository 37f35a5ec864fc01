"""Matrix products at the shapes of real layers: forward and the backward's two. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from planner import catalog
from planner.benchmark.run.case import Case, Run, Sizes
from planner.catalog.architecture import Architecture

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def cases(sizes: Sizes, device: str) -> Iterator[Case]:
    """The widest projection of every model's layer, and its head; fp32 once."""
    for number, model in enumerate(sizes.models):
        arch = architecture(model)
        for tokens in sizes.tokens:
            yield from _three(model, tokens, arch.hidden, arch.intermediate, device)
        head = (sizes.head_tokens, arch.hidden, arch.vocab)
        yield _case("head forward", model, *head, "bf16", device)
        if not number:
            shape = (sizes.tokens[-1], arch.hidden, arch.intermediate)
            yield _case("forward", model, *shape, "fp32", device)


def architecture(model: str) -> Architecture:
    """Dimensions of a model of the catalog."""
    found = catalog.model(model).architecture
    assert found is not None, model
    return found


def _three(model: str, tokens: int, inner: int, outer: int, device: str) -> Iterator[Case]:
    yield _case("forward", model, tokens, inner, outer, "bf16", device)
    yield _case("input gradient", model, tokens, outer, inner, "bf16", device)
    yield _case("weight gradient", model, outer, tokens, inner, "bf16", device)


def _case(
    name: str, model: str, rows: int, inner: int, columns: int, dtype: str, device: str
) -> Case:
    """``rows x inner`` times ``inner x columns``, in the memory order of ``nn.Linear``."""
    return Case(
        part="products",
        name=name,
        model=model,
        sizes={"rows": rows, "inner": inner, "columns": columns},
        dtype=dtype,
        flops=2.0 * rows * inner * columns,
        of="dense peak",
        make=_make(name, rows, inner, columns, dtype, device),
    )


def _make(
    name: str, rows: int, inner: int, columns: int, dtype: str, device: str
) -> Callable[[], Run]:
    def make() -> Run:
        kind: Any = {"dtype": DTYPES[dtype], "device": device}
        if name.endswith("forward"):  # the weight is stored [columns, inner]
            one, other = torch.randn(rows, inner, **kind), torch.randn(columns, inner, **kind).t()
        elif name == "input gradient":
            one, other = torch.randn(rows, inner, **kind), torch.randn(inner, columns, **kind)
        else:  # both were made as [tokens, …]
            one, other = torch.randn(inner, rows, **kind).t(), torch.randn(inner, columns, **kind)
        out = torch.empty(rows, columns, **kind)
        return lambda: torch.mm(one, other, out=out)

    return make
