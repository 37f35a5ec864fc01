"""Linear attention as a GPU with its packages runs it: the same tensors. Imports torch.

transformers 5.23.0 calls four functions in a layer of Qwen3-Next and Qwen3.5
(``use_kernel_func_from_hub_with_fallback``, integrations/hub_kernels.py): where they can be
imported, those of flash-linear-attention (:mod:`planner.dryrun.run.branches.gated_delta`) and of
causal-conv1d 1.7.0 (``causal_conv1d_interface.py`` 9-93, ``cpp_functions.py`` 94-190,
``csrc/causal_conv1d.cpp`` 261-410; https://github.com/Dao-AILab/causal-conv1d), and otherwise a
loop in plain torch. The gated norm behind them is plain torch either way, unless a model is
loaded with ``use_kernels``, which nothing here does. Grouped heads need flash-linear-attention
0.5.0; until 0.3 it refused fp32, so no version that these models run with refuses a format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from planner.dryrun.run.branches.card import CardTraits
from planner.dryrun.run.branches.gated_delta import Chunks, Recurrence, dense, tile_width

FAMILIES = ("qwen3_next", "qwen3_5", "qwen3_5_moe")
"""Families of transformers whose layers call the kernels as they were read."""
SUPPOSED = (
    "Linear attention is counted with stand-ins for flash-linear-attention 0.6.0 and "
    "causal-conv1d 1.7.0 that make the same tensors. Install both packages: without them "
    "transformers runs a loop in plain torch that keeps about twice as much memory in these layers."
)
"""What an answer says."""


class Convolution(torch.autograd.Function):
    """``CausalConv1dFn`` with an activation: input ``[rows, channels, tokens]``, any layout."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: D102
        if x.stride(2) != 1 and x.stride(1) != 1:
            x = x.contiguous()
        bias = dense(bias)
        output = torch.empty_like(x)
        ctx.save_for_backward(x, weight, bias)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: D102
        x, weight, bias = ctx.saved_tensors
        arrived = gradients[0]
        by_channel = x.stride(1) == 1 and x.stride(2) > 1
        if by_channel and arrived.stride(1) != 1:
            arrived = arrived.transpose(1, 2).contiguous()
        elif not by_channel and arrived.stride(2) != 1:
            arrived = arrived.contiguous()
        by_input = torch.empty_like(x)
        by_weight = torch.zeros_like(weight, dtype=torch.float32)
        by_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        del arrived
        by_weight = by_weight.type_as(weight)
        return by_input, by_weight, None if by_bias is None else by_bias.type_as(weight)


def _rule(kernel: Any, card: CardTraits, ran: Callable[[str], None]) -> Callable[..., Any]:
    """A form of the gated delta rule under the signature that layers call."""

    def called(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        g: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        output_final_state: bool = False,
        cu_seqlens: Tensor | None = None,
        **_: Any,
    ) -> Any:
        _refuse(cu_seqlens)
        ran(SUPPOSED)
        tile = tile_width(card, query.element_size())
        given = (query, key, value, g, beta, initial_state)
        return kernel.apply(*given, output_final_state, tile)

    return called


def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, seq_idx: Tensor | None = None, **_: Any
) -> Any:
    _refuse(seq_idx)
    return Convolution.apply(x, weight, bias)  # type: ignore[no-untyped-call]


def _convolution_of_one(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(x)  # the state is written over


def _refuse(boundaries: Tensor | None) -> None:
    if boundaries is not None:
        raise ValueError(
            "batch_shape: linear attention that keeps packed sequences apart is not modelled in a "
            "dry run; set batch_shape to full or padded."
        )


@contextmanager
def kernels(card: CardTraits, ran: Callable[[str], None]) -> Iterator[None]:
    """Inside, layers of linear attention run as with the packages; ``ran`` is told the sentence."""
    functions = {
        "torch_chunk_gated_delta_rule": _rule(Chunks, card, ran),
        "torch_recurrent_gated_delta_rule": _rule(Recurrence, card, ran),
        "causal_conv1d_fn": _convolution,
        "causal_conv1d_update": _convolution_of_one,
    }
    with ExitStack() as stack:
        for family in FAMILIES:
            modeling = import_module(_modeling(family))
            stack.enter_context(patch.multiple(modeling, **functions))  # type: ignore[call-overload]
        yield


def supposed(model: nn.Module) -> list[str]:
    """The sentence about the packages, for a model with layers that use them."""
    return [SUPPOSED] if any(stands_in(module) for module in model.modules()) else []


def stands_in(module: nn.Module) -> bool:
    """Whether a module is a layer of linear attention whose kernels have a stand-in."""
    kind = type(module)
    modelings = [_modeling(family) for family in FAMILIES]
    return kind.__name__.endswith("GatedDeltaNet") and kind.__module__ in modelings


def _modeling(family: str) -> str:
    return f"transformers.models.{family}.modeling_{family}"
