"""Kernels of a GPU that verl calls, as stand-ins that make the same tensors.

What they give is zero, so that a real run beside a dry one finds a norm that is finite.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


class CrossEntropy(Function):
    """flash-attn's Triton cross entropy (``ops/triton/cross_entropy.py``, read 2026-11).

    Losses, log-sum-exp and z-losses are fp32 per row; the backward may write over the logits.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, in_place: bool
    ) -> tuple[Tensor, Tensor]:
        """Losses and z-losses [rows] of logits [rows, vocabulary]."""
        rows = logits.shape[0]
        losses, lse, z_losses = (
            torch.zeros(rows, dtype=torch.float32, device=logits.device) for _ in range(3)
        )
        ctx.save_for_backward(logits, lse, labels)
        ctx.mark_non_differentiable(z_losses)
        ctx.in_place = in_place
        return losses, z_losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Gradient of the logits, over them or beside them."""
        logits, _, _ = ctx.saved_tensors
        return logits if ctx.in_place else torch.zeros_like(logits), None, None


def cross_entropy_loss(
    logits: Tensor, labels: Tensor, inplace_backward: bool = False
) -> tuple[Tensor, Tensor]:
    """As flash-attn's function of this name."""
    found: tuple[Tensor, Tensor] = CrossEntropy.apply(logits, labels, inplace_backward)  # type: ignore[no-untyped-call]
    return found


class CompiledEntropy(Function):
    """What Inductor makes of ``entropy_from_logits`` for a GPU: two kernels.

    The forward is reductions over the logits alone, which share a loop: on a GPU Inductor keeps
    no exponential for its second reader (``StorageBox.should_realize_on_reuse`` of
    ``torch/_inductor/ir.py`` does so on a CPU only). Between the two stand the logits and a few
    numbers per row, and the backward writes their gradient in their own format.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        """Entropies [rows], fp32, as autocast widens them."""
        rows = logits.shape[:-1]
        entropy, highest, total, expected = (
            torch.zeros(rows, dtype=torch.float32, device=logits.device) for _ in range(4)
        )
        ctx.save_for_backward(logits, highest, total, expected)
        return entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Gradient of the logits."""
        return torch.zeros_like(ctx.saved_tensors[0])


def compiled(function: Any, **_: Any) -> Any:
    """``torch.compile`` of verl's entropy; nothing else of its engine is compiled."""
    if function.__name__ != "entropy_from_logits":
        raise NotImplementedError(f"{function.__name__} has not been compiled here")
    return CompiledEntropy.apply
