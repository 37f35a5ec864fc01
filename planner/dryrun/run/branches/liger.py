"""Liger's kernels where they cannot run: the same tensors without the arithmetic. Imports torch.

Each function makes, saves and hands on what the one of liger-kernel 0.8.5 does, in its order; the
kernels themselves (Triton's) take nothing beside. Which modules get them is ``monkey_patch.py``'s
list for each family: every RMSNorm, every MLP, and the modeling file's ``apply_rotary_pos_emb``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from planner.formulas.activations.liger import DERIVED, IN_PLACE

Apply = Callable[[nn.Module], None]


class RmsNorm(torch.autograd.Function):
    """``LigerRMSNormFunction`` (ops/rms_norm.py, lines 449-712)."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, x: Tensor, weight: Tensor, in_place: bool, multiprocessors: int
    ) -> Tensor:
        rows = x.contiguous().view(-1, x.shape[-1])
        output = torch.empty_like(rows)
        scale = torch.empty(rows.shape[0], dtype=torch.float32, device=rows.device)
        ctx.in_place, ctx.multiprocessors = in_place, multiprocessors
        ctx.save_for_backward(rows, weight, scale)
        return output.view(x.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: D102
        _, weight, _ = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        shape = (ctx.multiprocessors, weight.shape[0])
        trained = ctx.needs_input_grad[1]
        partial = torch.empty(shape, dtype=torch.float32, device=weight.device) if trained else None
        result = gradient if ctx.in_place else torch.zeros_like(gradient)
        summed = partial.sum(dim=0).to(weight.dtype) if partial is not None else None
        return result, summed, None, None


class Rope(torch.autograd.Function):
    """``LigerRopeFunction`` (ops/rope.py, lines 138-306): in place where a head lies by token."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:  # noqa: D102
        q, k = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous()
        ctx.save_for_backward(cos.contiguous(), sin.contiguous())
        return q.transpose(1, 2), k.transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: D102
        dq, dk = (gradient.transpose(1, 2).contiguous() for gradient in gradients)
        return dq.transpose(1, 2), dk.transpose(1, 2), None, None


class GatedProduct(torch.autograd.Function):
    """``LigerSiLUMulFunction`` and ``LigerGELUMulFunction`` (ops/swiglu.py, lines 159-306)."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:  # noqa: D102
        gate, up = gate.contiguous(), up.contiguous()
        product = torch.empty_like(gate)
        ctx.save_for_backward(gate, up)
        return product

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: D102
        gradients[0].contiguous()
        return ctx.saved_tensors


@contextmanager
def liger_kernels(multiprocessors: int) -> Iterator[Apply]:
    """Yields what puts the kernels into a model; modeling files are put back at the end.

    Args:
        multiprocessors: of the card; partial sums of norm weights' gradients have a row each.
    """
    changed: dict[Any, Any] = {}

    def apply(model: nn.Module) -> None:
        family = model.config.model_type  # type: ignore[union-attr]
        if family not in DERIVED:
            raise ValueError(
                f"liger: what its kernels keep in {family} layers is not derived; set liger to "
                f"false, or use a model of {', '.join(DERIVED)}."
            )
        modeling: Any = sys.modules[type(model).__module__]
        changed.setdefault(modeling, modeling.apply_rotary_pos_emb)
        modeling.apply_rotary_pos_emb = _rotate
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                module.forward = partial(_norm, module, family in IN_PLACE, multiprocessors)
            elif type(module).__name__.endswith("MLP"):
                module.forward = partial(_mlp, module)

    try:
        yield apply
    finally:
        for modeling, original in changed.items():
            modeling.apply_rotary_pos_emb = original


def _rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> Any:
    return Rope.apply(q, k, cos, sin)  # type: ignore[no-untyped-call]


def _norm(module: Any, in_place: bool, multiprocessors: int, hidden_states: Tensor) -> Any:
    return RmsNorm.apply(hidden_states, module.weight, in_place, multiprocessors)  # type: ignore[no-untyped-call]


def _mlp(module: Any, x: Tensor) -> Any:
    product = GatedProduct.apply(module.gate_proj(x), module.up_proj(x))  # type: ignore[no-untyped-call]
    return module.down_proj(product)
