"""``scaled_dot_product_attention`` as a CUDA card runs it, on tensors without data.

What aten/src/ATen/native/transformers/attention.cpp does at torch 2.13 around the kernels is
done here in the same order with the same operators (masks, padding, grouped heads); the kernels
themselves are torch's own CUDA operators, whose meta kernels and derivatives say what a card
makes and keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from planner.dryrun.run.branches.backend import Backend, Call

aten = torch.ops.aten
HALVES = {torch.bfloat16: "bf16", torch.float16: "fp16"}
BIAS_ALIGNMENT = 8
HEAD_ALIGNMENT = 8

Attention = Callable[..., Tensor]


def attention(choose: Callable[[Call], Backend]) -> Attention:
    """A stand-in for ``torch.nn.functional.scaled_dot_product_attention``.

    ``choose`` is asked for the kernel of every call.
    """

    def scaled_dot_product_attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        query, key, value, attn_mask = _lowered(query, key, value, attn_mask)
        trains = query.requires_grad or key.requires_grad or value.requires_grad
        call = Call(
            heads=query.shape[-3],
            kv_heads=key.shape[-3],
            head_dim=query.shape[-1],
            value_dim=value.shape[-1],
            tokens=query.shape[-2],
            key_tokens=key.shape[-2],
            item_bytes=query.element_size(),
            half=HALVES.get(query.dtype, ""),  # type: ignore[arg-type]
            masked=attn_mask is not None,
            causal=is_causal,
            grouped=enable_gqa,
            dropout=dropout_p,
            trains=trains and torch.is_grad_enabled(),
        )
        name = choose(call)
        bias = _additive(attn_mask, query.dtype)
        del attn_mask
        if name == "math":
            return _math(query, key, value, bias, call, scale)
        if name == "flash":
            # The scale is of the head's size before it is padded.
            scale = 1 / math.sqrt(call.head_dim) if scale is None else scale
            return padded_heads(
                lambda *qkv: aten._scaled_dot_product_flash_attention(
                    *qkv, dropout_p, is_causal, False, scale=scale
                ),
                *(query, key, value),
            )
        output: Tensor
        if name == "cpu":
            output = aten._scaled_dot_product_flash_attention_for_cpu(
                query, key, value, dropout_p, is_causal, attn_mask=bias, scale=scale
            )[0]
        elif name == "cudnn":
            output = aten._scaled_dot_product_cudnn_attention(
                query, key, value, bias, call.trains, dropout_p, is_causal, False, scale=scale
            )[0]
        else:
            bias = _padded(bias, query, key) if bias is not None else None
            output = aten._scaled_dot_product_efficient_attention(
                query, key, value, bias, call.trains, dropout_p, is_causal, scale=scale
            )[0]
        return output

    return scaled_dot_product_attention


def _lowered(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Autocast lowers what is wider than its format before the kernel is chosen."""
    device = query.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return query, key, value, mask
    dtype = torch.get_autocast_dtype(device)
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    if mask is not None and mask.is_floating_point():
        mask = mask.to(dtype)
    return query, key, value, mask


def _additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """``convert_boolean_attn_mask``: minus infinity where nothing may be seen."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    seen = torch.scalar_tensor(0.0, dtype=dtype, device=mask.device)
    unseen = torch.scalar_tensor(-math.inf, dtype=dtype, device=mask.device)
    return torch.where(mask, seen, unseen)


def _padded(bias: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """``preprocess_mask``: rows start at multiples of eight elements, in a copy if need be."""
    aligned = all(stride % BIAS_ALIGNMENT == 0 for stride in bias.stride()[:-1])
    if not (aligned and bias.stride(-1) == 1):
        length = bias.shape[-1]
        # The original pads a row that is a multiple of eight already by eight more.
        bias = torch.nn.functional.pad(bias, (0, BIAS_ALIGNMENT - length % BIAS_ALIGNMENT))
        bias = bias[..., :length]
    return bias.expand(*query.shape[:3], key.shape[2])


def padded_heads(kernel: Callable[..., Any], *inputs: Tensor) -> Tensor:
    """A flash kernel's output, for heads padded to multiples of eight."""
    size = inputs[0].shape[-1]
    missing = -size % HEAD_ALIGNMENT
    if not missing:
        output: Tensor = kernel(*inputs)[0]
        return output
    output = kernel(*(torch.nn.functional.pad(item, (0, missing)) for item in inputs))[0]
    return output[..., :size]


def _math(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, call: Call, scale: float | None
) -> Tensor:
    """``_scaled_dot_product_attention_math``.

    Written out, since the original adds the mask in place, but not while a dispatch mode watches.
    """
    dtype = query.dtype
    root = math.sqrt(1 / math.sqrt(call.head_dim) if scale is None else abs(scale))
    if call.half:
        query, key, value = query.float(), key.float(), value.float()
    query = query * root
    if call.causal:
        shape = (call.tokens, call.key_tokens)
        seen = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
        bias = _additive(seen, query.dtype)
        del seen
    if call.grouped and call.heads != call.kv_heads:
        repeats = call.heads // call.kv_heads
        key = key.repeat_interleave(repeats, -3)
        value = value.repeat_interleave(repeats, -3)
    weights = torch.matmul(query, key.transpose(-2, -1) * root)
    if bias is not None:
        weights.add_(bias)
    weights = aten._safe_softmax(weights, -1)
    if call.dropout > 0.0:
        weights = torch.native_dropout(weights, call.dropout, True)[0]
    return torch.matmul(weights, value).to(dtype)
