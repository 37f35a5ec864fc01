"""The device's own memory: a copy, and AdamW's update of many tensors. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from planner.benchmark.run.case import Case, Run, Sizes

TENSORS = 16
ADAMW_BYTES = 7 * 4
"""Of one fp32 value: weight and both moments read and written, the gradient read."""


def cases(sizes: Sizes, device: str) -> Iterator[Case]:
    """The copy, and the fused and the foreach update."""
    yield Case(
        part="bandwidth",
        name="copy",
        sizes={"bytes": sizes.copy_bytes},
        moved_bytes=2 * sizes.copy_bytes,
        of="memory bandwidth",
        make=partial(_copy, sizes.copy_bytes, device),
    )
    each = sizes.optimizer_values // TENSORS
    for kind in ("fused", "foreach"):
        yield Case(
            part="bandwidth",
            name=f"adamw-{kind}",
            sizes={"values": each * TENSORS, "tensors": TENSORS},
            dtype="fp32",
            moved_bytes=ADAMW_BYTES * each * TENSORS,
            of="memory bandwidth",
            make=partial(_adamw, each, kind, device),
        )


def _copy(size_bytes: int, device: str) -> Run:
    one = torch.zeros(size_bytes, dtype=torch.uint8, device=device)
    return partial(torch.empty_like(one).copy_, one)


def _adamw(each: int, kind: str, device: str) -> Run:
    weights = [torch.randn(each, device=device, requires_grad=True) for _ in range(TENSORS)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    how: dict[str, Any] = {kind: True}
    return torch.optim.AdamW(weights, lr=1e-4, **how).step
