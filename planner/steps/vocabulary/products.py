"""A product added to an fp32 sum without rounding it to the factors' dtype first.

Rounding every tile's product to bf16 before it is added biases the gradient (trl 1.16.0
``trl/kernels/chunked_logprob.py``, ``_addmm_fp32``). CUDA's product of half-precision factors
writes fp32; a CPU has none, so there the factors are widened inside the operator.
"""

from __future__ import annotations

import torch


@torch.library.custom_op("headroom::add_product", mutates_args=("into",))
def add_product(into: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """``into`` [m, n] in fp32 += ``left`` [m, k] @ ``right`` [k, n]."""
    into.addmm_(left.to(into.dtype), right.to(into.dtype))


@add_product.register_kernel("cuda")
def _on_cuda(into: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    if left.dtype == into.dtype:
        into.addmm_(left, right)
    else:
        torch.addmm(into, left, right, out_dtype=into.dtype, out=into)


@add_product.register_fake
def _without_data(into: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    return None
