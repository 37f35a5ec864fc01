"""bitsandbytes' 4-bit layers where the package is absent: the same tensors. Imports torch.

What is kept of a weight is what ``quantize_4bit`` of bitsandbytes 0.50.2 returns with double
quantisation: two values a byte, a byte for each block of 64, and an fp32 scale for each 256 of
these. Products and their backward make what ``_dequant_linear_fallback`` (backends/cuda/ops.py) and
``MatMul4Bit`` (autograd/_functions.py) make; adapters around them what peft 0.21.2 makes
(tuners/lora/bnb.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from planner.numeric import ceil_div

BLOCK, SCALES_BLOCK = 64, 256


class Product(torch.autograd.Function):
    """``MatMul4Bit`` with a nested state."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, x: Tensor, packed: Tensor, scales: Tensor, bias: Tensor | None, out: int
    ) -> Tensor:
        wide = torch.empty_like(scales, dtype=torch.float32)
        summed = torch.empty_like(wide)
        weight = torch.empty(out, x.shape[-1], dtype=x.dtype, device=x.device)
        ctx.packed, ctx.scales, ctx.shape, ctx.dtype = packed, scales, weight.shape, x.dtype
        result = nn.functional.linear(x, weight, bias)
        del wide, summed
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: D102
        gradient = gradients[0]
        if not ctx.needs_input_grad[0]:
            return None, None, None, None, None
        scales = torch.empty_like(ctx.scales, dtype=torch.float32)
        weight = torch.empty(ctx.shape, dtype=ctx.dtype, device=gradient.device)
        del scales
        return torch.matmul(gradient, weight), None, None, None, None


def quantised(layers: nn.ModuleList, compute: torch.dtype) -> None:
    """Keep the linear weights of ``layers`` in 4 bits; head, norms and embeddings stay.

    Products are in the ``compute`` dtype, and come back in that of their input.
    """
    for module in layers.modules():
        if isinstance(module, nn.Linear):
            _quantise(module, compute)


def _quantise(module: Any, compute: torch.dtype) -> None:
    weight: Tensor = module.weight
    count = weight.numel()
    scales = ceil_div(count, BLOCK)

    def empty(size: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(size, dtype=dtype, device=weight.device)

    packed = empty(ceil_div(count, 2), torch.uint8).view(-1, 1)
    module.weight = nn.Parameter(packed, requires_grad=False)
    module.register_buffer("absmax", empty(scales, torch.uint8), persistent=False)
    nested = empty(ceil_div(scales, SCALES_BLOCK), torch.float32)
    module.register_buffer("nested_absmax", nested, persistent=False)
    module.weight.quant_state = module.absmax, module.nested_absmax
    module.forward = partial(_forward, module, compute)


def _forward(module: Any, compute: torch.dtype, x: Tensor) -> Any:
    bias = None if module.bias is None else module.bias.to(compute)
    given = (module.weight, module.absmax, bias, module.out_features)
    return Product.apply(x.to(compute), *given).to(x.dtype)  # type: ignore[no-untyped-call]


def adapted(model: nn.Module, dtype: torch.dtype) -> None:
    """Have peft's adapters compute as around a 4-bit layer, their weights in ``dtype``."""
    from peft.tuners.lora import Linear

    for module in model.modules():
        if isinstance(module, Linear) and hasattr(module.get_base_layer(), "nested_absmax"):
            module.forward = partial(_with_adapter, module)  # type: ignore[method-assign]
    for name, weight in model.named_parameters():
        if "lora_" in name:
            weight.data = weight.data.to(dtype)


def _with_adapter(module: Any, x: Tensor) -> Tensor:
    result: Tensor = module.base_layer(x)
    if module.disable_adapters:
        return result
    result = result.clone()
    casts = not torch.is_autocast_enabled(x.device.type) if x.device.type != "meta" else True
    for name in module.active_adapters:
        first, second = module.lora_A[name], module.lora_B[name]
        if casts:
            x = x.to(first.weight.dtype)
        output = second(first(module.lora_dropout[name](x))) * module.scaling[name]
        if casts:
            output = output.to(result.dtype)
        result = result + output
    return result
