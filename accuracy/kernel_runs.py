"""Kernels of training on this machine's card, which the catalog's tables do not have.

``python -m accuracy.kernel_runs --gpu KEY --out FILE`` times, in about a minute, what estimates
suppose of a backward (docs/kernels.md): both gradients of a matrix product beside its forward,
attention's backward by torch's kernels, attention over a prefix, experts by grouped products and
their backward, how long a product keeps its rate, and what the host needs to launch a layer
(:mod:`accuracy.launch_runs`). Downloads nothing. Imports torch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention, silu

from accuracy import launch_runs
from accuracy.cards import check_card
from planner.benchmark.run.case import Case
from planner.benchmark.run.clock import DeviceClock, WallClock, sample
from planner.trial.run.device import environment

Shape = tuple[int, ...]
CASE_SECONDS = 0.15
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
MASKED = SDPBackend.EFFICIENT_ATTENTION
"""What torch takes where a mask is given."""
SUSTAINED_SECONDS = 5.0
POWER = 1.2
"""Of the law by which tokens fall on experts in the catalog's tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is measured; the tests have small ones of their own."""

    widths: tuple[tuple[int, int], ...]
    """In and out, of projections and of heads."""
    tokens: tuple[int, ...]
    lanes: int
    """Positions times heads of attention at once."""
    head_dims: tuple[int, ...]
    lengths: tuple[int, ...]
    prefixes: tuple[int, ...]
    chunks: tuple[int, ...]
    experts: tuple[tuple[int, int, int, int], ...]
    """Hidden and expert width, experts, experts a token."""


CARD = Sizes(
    widths=(
        (896, 4864), (1536, 8960), (3584, 3584), (3584, 18_944), (5120, 27_648), (8192, 28_672),
        (1536, 151_936), (3584, 152_064),
    ),
    tokens=(512, 2048, 8192, 32_768),
    lanes=32 * 32_768,
    head_dims=(64, 128),
    lengths=(1024, 4096, 16_384),
    prefixes=(0, 2048, 8192, 30_720),
    chunks=(512, 2048),
    experts=((2048, 768, 128, 8), (2048, 1024, 64, 8), (4096, 14_336, 8, 2), (2880, 2880, 32, 4)),
)  # fmt: skip


def cases(sizes: Sizes, device: str) -> Iterator[Case]:
    """Everything that has one time."""
    yield from _products(sizes, device)
    yield from _attention(sizes, device)
    yield from _prefixes(sizes, device)
    yield from _experts(sizes, device)


def _made(*shape: int, device: str, grad: bool = False) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.bfloat16, device=device, requires_grad=grad)


def _case(part: str, name: str, sizes: dict[str, int], flops: float, make: Any) -> Case:
    kind: Any = part  # some are no part of a benchmark
    return Case(part=kind, name=name, sizes=sizes, dtype="bf16", flops=flops, make=make)


def _products(sizes: Sizes, device: str) -> Iterator[Case]:
    """A projection's forward and both gradients, as ``nn.Linear`` lays its operands out."""
    for inner, outer in sizes.widths:
        for tokens in sizes.tokens:
            if tokens * outer > 2**31:
                continue
            told = {"tokens": tokens, "inner": inner, "outer": outer}
            for name in ("forward", "input gradient", "weight gradient"):
                make = partial(_product, name, tokens, inner, outer, device)
                yield _case("products", name, told, 2.0 * tokens * inner * outer, make)


def _product(name: str, tokens: int, inner: int, outer: int, device: str) -> Callable[[], object]:
    given = _made(tokens, inner, device=device)
    weight, gradient = _made(outer, inner, device=device), _made(tokens, outer, device=device)
    one, other = {
        "forward": (given, weight.t()),
        "input gradient": (gradient, weight),
        "weight gradient": (gradient.t(), given),
    }[name]
    return partial(torch.mm, one, other, out=given.new_empty(one.shape[0], other.shape[1]))


def _attention(sizes: Sizes, device: str) -> Iterator[Case]:
    for dim in sizes.head_dims:
        for length in sizes.lengths:
            rows = max(sizes.lanes // (32 * length), 1)
            told = {"rows": rows, "heads": 32, "tokens": length, "head_dim": dim}
            half = 2.0 * rows * 32 * dim * length * (length + 1)
            for kernel in (*BACKENDS, "masked"):
                whole = 4.0 * rows * 32 * dim * length**2 if kernel == "masked" else half
                if kernel == "masked" and length > 8192:
                    continue  # the mask alone is gigabytes
                for name, times in (("forward", 1.0), ("backward", 2.5)):
                    make = partial(_attended, kernel, name, (rows, 32, length, dim), device)
                    yield _case("attention", f"{kernel} {name}", told, times * whole, make)


def _attended(kernel: str, name: str, shape: Shape, device: str) -> Callable[[], object]:
    made = partial(_made, *shape, device=device, grad=name == "backward")
    given = queries, keys, values = made(), made(), made()
    gradient = _made(*shape, device=device)
    how: dict[str, Any] = {"is_causal": True}
    if kernel == "masked":
        rows, _, length, _ = shape
        lower = torch.ones(length, length, dtype=torch.bool, device=device).tril()
        how = {"attn_mask": lower.expand(rows, 1, length, length)}

    def forward() -> torch.Tensor:
        with sdpa_kernel(BACKENDS.get(kernel, MASKED)):
            return scaled_dot_product_attention(queries, keys, values, **how)

    if name == "forward":
        return forward
    out = forward()
    return partial(torch.autograd.grad, out, given, gradient, retain_graph=True)


def _prefixes(sizes: Sizes, device: str) -> Iterator[Case]:
    """A chunk of a prompt over what the cache has of it, by FlashAttention-2."""
    heads, dim = 32, 128
    for chunk in sizes.chunks:
        for prefix in sizes.prefixes:
            for tokens, before in ((chunk, prefix), (chunk + prefix, 0)):
                told = {"tokens": tokens, "prefix": before, "heads": heads, "head_dim": dim}
                flops = 4.0 * heads * dim * tokens * (before + (tokens + 1) / 2)
                make = partial(_chunk, tokens, before, heads, dim, device)
                yield _case("prefix", "forward", told, flops, make)


def _chunk(tokens: int, prefix: int, heads: int, dim: int, device: str) -> Callable[[], object]:
    asked = _made(1, heads, tokens, dim, device=device)
    made = partial(_made, 1, heads, tokens + prefix, dim, device=device)
    keys, values = made(), made()
    mask: Any = causal_lower_right(tokens, tokens + prefix)

    def run() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(asked, keys, values, attn_mask=mask)

    return run


def _experts(sizes: Sizes, device: str) -> Iterator[Case]:
    for hidden, inner, experts, each in sizes.experts:
        for tokens in sizes.tokens[1:]:
            told = {"tokens": tokens, "hidden": hidden, "expert_intermediate": inner}
            told |= {"experts": experts, "experts_per_token": each}
            flops = 6.0 * tokens * each * hidden * inner
            for name, times in (("forward", 1.0), ("backward", 2.0)):
                make = partial(_met, name, told, device)
                yield _case("experts", name, told, times * flops, make)


def loads(tokens: int, experts: int) -> list[int]:
    """Rows of each expert, by the power law of the catalog's tables."""
    shares = [1 / (place + 1) ** POWER for place in range(experts)]
    found = [int(tokens * share / sum(shares)) for share in shares]
    found[0] += tokens - sum(found)
    return found


def _met(name: str, told: dict[str, int], device: str) -> Callable[[], object]:
    """Both grouped products of a layer's experts, and the activation between them."""
    rows = told["tokens"] * told["experts_per_token"]
    hidden, inner, experts = told["hidden"], told["expert_intermediate"], told["experts"]
    counts = torch.tensor(loads(rows, experts), device=device)
    ends = counts.cumsum(0).to(torch.int32)
    grad = name == "backward"
    given = _made(rows, hidden, device=device, grad=grad)
    up = _made(experts, hidden, 2 * inner, device=device, grad=grad)
    down = _made(experts, inner, hidden, device=device, grad=grad)
    gradient = _made(rows, hidden, device=device)

    def forward() -> torch.Tensor:
        gate, value = torch._grouped_mm(given, up, offs=ends).chunk(2, dim=-1)
        return torch._grouped_mm(silu(gate) * value, down, offs=ends)

    if not grad:
        return forward
    out = forward()
    return partial(torch.autograd.grad, out, (given, up, down), gradient, retain_graph=True)


def sustained(
    clock: WallClock, device: str, shape: tuple[int, int, int], seconds: float
) -> list[float]:
    """Seconds of one product, measured again and again for so long without a pause."""
    tokens, inner, outer = shape
    run = _product("forward", tokens, inner, outer, device)
    case = _case("products", "sustained", {}, 2.0 * prod(shape), None)
    clock.seconds(case, run, 1)
    begin, found = clock.now(), []
    times = max(int(0.05 / clock.seconds(case, run, 1)), 1)
    while clock.now() - begin < seconds:
        found.append(clock.seconds(case, run, times) / times)
    return found


def measured(found: Iterable[Case], clock: WallClock) -> Iterator[dict[str, Any]]:
    """Each case's row; of one that the card refuses, why."""
    for case in found:
        row = {"part": case.part, "name": case.name, "sizes": case.sizes, "flops": case.flops}
        try:
            told = sample(case, clock, clock.now() + CASE_SECONDS)
        except RuntimeError as error:
            yield {**row, "refused": str(error).splitlines()[0][:300]}
            continue
        ends = {"low_seconds": told.lowest, "high_seconds": told.highest, "samples": told.count}
        yield {**row, "seconds": told.median, **ends}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure everything."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.kernel_runs", description=__doc__)
    parser.add_argument("--gpu", required=True, help="the card's key in the catalog")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    given = parser.parse_args(arguments)
    device = "cuda:0"
    check_card(given.gpu, device)
    clock = DeviceClock(device)
    found = [*measured(cases(CARD, device), clock), *launch_runs.rows(device)]
    shape = 8192, 3584, 18_944
    held = sustained(clock, device, shape, SUSTAINED_SECONDS)
    told = {
        "gpu": given.gpu,
        "environment": environment(device).model_dump(mode="json"),
        "sustained": {"shape": shape, "seconds": held},
    }
    rows = ",\n".join(json.dumps(row) for row in found)
    given.out.write_text(f'{json.dumps(told)[:-1]}, "rows": [\n{rows}\n]}}\n', "utf-8")
    print(f"{len(found)} kernels, {sum('refused' in row for row in found)} of them refused.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
