"""Autocast of the CPU with the operators that autocast of CUDA runs in fp32.

A plan with autocast runs on fake CPU tensors, and the two lists differ: CUDA widens softmax,
norms, powers, logarithms and sums, the CPU leaves them as they come. Inside, those operators are
widened on the CPU as well (aten/src/ATen/autocast_mode.h, torch 2.13: ``AT_FORALL_FP32``,
``AT_FORALL_FP32_SET_OPT_DTYPE`` and ``AT_FORALL_PROMOTE``, as far as language models and their
losses use them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

WIDENED = (
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "reciprocal",
    "rsqrt",
    "softplus",
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "norm.Scalar",
    "norm.ScalarOpt_dim",
    "cosine_similarity",
    "nll_loss",
    "nll_loss_nd",
    "kl_div",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "binary_cross_entropy_with_logits",
    "dist",
    "logsumexp",
)
"""Operators whose low-precision arguments are cast to fp32. Some the CPU casts as well."""
GIVEN_DTYPE = (
    "softmax.int",
    "log_softmax.int",
    "cumsum",
    "cumprod",
    "prod",
    "prod.dim_int",
    "sum",
    "sum.dim_IntList",
    "linalg_vector_norm",
)
"""Operators that are told to work in fp32 unless the caller names a format."""
PROMOTED = ("addcdiv", "addcmul", "atan2", "dot", "index_put", "scatter_add", "tensordot")
"""Operators whose low-precision arguments are cast to the widest format among them."""

LOW = (torch.bfloat16, torch.float16)


_known = torch._C._dispatch_has_kernel_for_dispatch_key


@contextmanager
def as_on_cuda() -> Iterator[None]:
    """Registers the operators with the CPU's autocast, and takes them out again."""
    library: Any = torch.library.Library("aten", "IMPL", "AutocastCPU")  # type: ignore[no-untyped-call]
    try:
        for names, rule in ((WIDENED, _widened), (GIVEN_DTYPE, _given), (PROMOTED, _promoted)):
            for name in names:
                if not _known("aten::" + name, "AutocastCPU"):
                    library.impl(name, _ruled(overload(name), rule))
        yield
    finally:
        library._destroy()


def overload(name: str) -> Any:
    """An operator of ``aten`` by its name: ``sum.dim_IntList``, or ``exp`` for its default."""
    packet, _, kind = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), kind or "default")


Given = tuple[Any, dict[str, Any]]
"""Arguments of a call."""


def _ruled(op: Any, rule: Callable[[Any, Given], Given]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            args, kwargs = rule(op, (args, kwargs))
            return op(*args, **kwargs)

    return call


def _widened(_: Any, given: Given) -> Given:
    cast: Given = torch.utils._pytree.tree_map(
        lambda item: item.float() if isinstance(item, Tensor) and item.dtype in LOW else item,
        given,
    )
    return cast


def _given(op: Any, given: Given) -> Given:
    args, kwargs = given
    place = [argument.name for argument in op._schema.arguments].index("dtype")
    asked = kwargs.get("dtype") if len(args) <= place else args[place]
    if asked is None and args[0].dtype in LOW:
        return args[:place], {**kwargs, "dtype": torch.float32}
    return given


def _promoted(op: Any, given: Given) -> Given:
    items = torch.utils._pytree.tree_leaves(given[0])
    wide = any(isinstance(item, Tensor) and item.dtype == torch.float32 for item in items)
    return _widened(op, given) if wide else given


_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
