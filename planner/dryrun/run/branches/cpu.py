"""The CPU's own branches, for dry runs that are compared with real runs where there is no GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from planner.dryrun.run.branches import flash
from planner.dryrun.run.branches.grouped import grouped_products
from planner.dryrun.run.branches.masks import BatchShape, Shaped
from planner.dryrun.run.branches.sdpa import attention as attention_of
from planner.dryrun.run.workspaces import workspace_bytes
from planner.steps.vocabulary import products  # noqa: F401  (registers an operator)


class CpuBranches(Shaped):
    """What :class:`planner.dryrun.run.branches.gpu.Branches` says, of a CPU."""

    notes = ("CPU kernels were chosen: compare with real runs on a CPU, not with any GPU.",)

    def __init__(self, batch_shape: BatchShape) -> None:
        self.batch_shape = batch_shape

    def scratch(self, func: Any, args: Any) -> int | None:
        """Bytes a CPU kernel takes and gives back inside one call."""
        found = SCRATCH.get(func)
        return None if found is None else found(*args)


@contextmanager
def cpu_branches(
    batch_shape: BatchShape, attention: str, device: str = "meta"
) -> Iterator[CpuBranches]:
    """Have tensors without data go where a CPU's tensors go.

    Masks are those of batches of the plan's shape, attention is the CPU's flash kernel (always, by
    aten/src/ATen/native/transformers/attention.cpp and sdp_utils_cpp.cpp of torch 2.13), and
    autocast and dropout are left as they are. ``device`` is the type of the step's tensors. No CPU
    runs flash-attn: comparisons have its kernels compute nothing on both sides.
    """
    branches = CpuBranches(batch_shape)
    with ExitStack() as stack:
        if attention == "flash":
            stack.enter_context(flash.kernels(branches))
        stack.enter_context(branches.masks())
        stack.enter_context(grouped_products())
        for module, name, instead in (
            (torch.nn.functional, "scaled_dot_product_attention", attention_of(lambda _: "cpu")),
            (torch, "get_rng_state", partial(_counted, torch.get_rng_state, device)),
            (torch.random, "fork_rng", partial(_forked, torch.random.fork_rng)),
        ):
            stack.enter_context(patch.object(module, name, instead))
        yield branches


def _counted(state: Callable[[], Any], device: str) -> Any:
    """Checkpoints keep the state of the CPU's random numbers, in a tensor no operator makes."""
    found = state()
    found.stands_for_it = torch.empty_like(found, device=device)
    return found


def _forked(fork: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """A checkpoint that is computed again keeps the state of the time, on meta as on a CPU."""
    return fork(*given, **{**named, "device_type": "cpu"})


def _widened(into: Tensor, left: Tensor, right: Tensor) -> int:
    """Both factors in the sum's format (planner/steps/vocabulary/products.py)."""
    return sum(
        into.element_size() * item.numel() for item in (left, right) if item.dtype != into.dtype
    )


def _promoted(first: Any, second: Any, *_: Any) -> int:
    """An operand of a narrower format is cast into a tensor of its own (TensorIterator.cpp).

    A card casts while it reads.
    """
    if (
        not (isinstance(first, Tensor) and isinstance(second, Tensor))
        or not first.dim() * second.dim()
    ):
        return 0
    wide = max(
        first.dtype, second.dtype, key=lambda dtype: (dtype.is_floating_point, dtype.itemsize)
    )
    return sum(wide.itemsize * item.numel() for item in (first, second) if item.dtype != wide)


def _scattered(into: Tensor, *_: Any) -> int:
    """Half-precision sums in an fp32 copy (ScatterGatherKernel.cpp, ``opmath_t``)."""
    return 4 * into.numel() if into.element_size() == 2 else 0


def _exponentials(logits: Tensor, *_: Any) -> int:
    """As on a card: the row of the table of workspaces says where from."""
    return workspace_bytes("aten.logsumexp", [(tuple(logits.shape), logits.element_size())]) or 0


def _attended(query: Tensor, key: Tensor, *_: Any) -> int:
    """Each thread's scores of a block of queries and keys, in fp32 and again in half precision.

    FlashAttentionKernel.cpp, ``cpu_flash_attention``: blocks of 512 keys, and of more queries where
    there are more. A card keeps such a block in registers.
    """
    tokens, width = query.shape[-2:]
    rows = min(tokens, 256 if tokens >= 768 else 64 if tokens >= 192 else 32)
    columns = min(key.shape[-2], 512)
    halves = 2 * rows * columns if query.element_size() == 2 else 0
    each: int = 4 * rows * (columns + 2 + width) + halves
    return each * torch.get_num_threads()


SCRATCH: dict[Any, Callable[..., int]] = {
    torch.ops.headroom.add_product.default: _widened,
    torch.ops.aten.add.Tensor: _promoted,
    torch.ops.aten.sub.Tensor: _promoted,
    torch.ops.aten.mul.Tensor: _promoted,
    torch.ops.aten.scatter_add_.default: _scattered,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default: _attended,
    torch.ops.aten.logsumexp.default: _exponentials,
    torch.ops.aten.logsumexp.out: _exponentials,
}
"""Bytes inside one call of a CPU kernel, as torch's profiler shows them (torch 2.13)."""
