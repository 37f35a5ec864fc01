"""Linear attention as a GPU with its packages runs it: the same tensors. Imports torch.

transformers 5.23.0 calls four functions in a layer of Qwen3-Next and Qwen3.5
(``use_kernel_func_from_hub_with_fallback``, integrations/hub_kernels.py): with the packages
installed they are flash-linear-attention's and causal-conv1d's, and a loop in plain torch without.
The gated norm behind them is plain torch either way (``kernelize`` alone would change that).

Read in the releases flash-linear-attention 0.6.0 (fla-core) and causal-conv1d 1.7.0: what is made,
kept and freed, in its order; the kernels themselves (Triton's, CUDA's) take nothing beside. Without
the packages' optional backends (FlashQLA, TileLang), which replace kernels by other ones.

==============  ================================================================================
chunks          ``ops/gated_delta_rule/chunk.py`` (37-304), ``chunk_fwd.py`` ``wy_fast.py``,
                ``ops/common/chunk_delta_h.py`` and ``chunk_o.py``, ``modules/norm/l2norm.py``,
                ``ops/utils/cumsum.py``; contiguous inputs by ``utils/decorators.py``
one token       ``ops/gated_delta_rule/fused_recurrent.py``
convolution     ``causal_conv1d_interface.py``, ``cpp_functions.py``, ``csrc/causal_conv1d.cpp``
==============  ================================================================================

Both are in https://github.com/fla-org/flash-linear-attention and
https://github.com/Dao-AILab/causal-conv1d. Grouped heads need 0.5.0 of the first, and from 0.4.0
on it takes fp32 as well, so no version that these models can run with refuses a format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd

from planner.dryrun.branches.card import CardTraits
from planner.numeric import ceil_div

CHUNK_TOKENS = 64
FAMILIES = ("qwen3_next", "qwen3_5", "qwen3_5_moe")
"""Families of transformers whose layers call the kernels as they are read here."""
SUPPOSED = (
    "Linear attention is counted with flash-linear-attention 0.6.0 and causal-conv1d 1.7.0, as "
    "stand-ins that make the same tensors; install both, since without them transformers runs a "
    "loop in plain torch that keeps about twice as much in these layers."
)
"""What an answer says."""

LARGE_TILE = 128
HOPPER = ((9, 0), (10, 0), (10, 3))
"""Cards whose blocks may have 227 KiB of shared memory (fla/utils/hardware.py, ``Backend``)."""
AMPERE = ((8, 0), (8, 7))
"""Those with 163 KiB."""
ADA = ((8, 6), (8, 9), (12, 0), (12, 1))
"""Those with 99 KiB."""


def tile_width(card: CardTraits, item_bytes: int) -> int:
    """Channels of a tile in ``chunk_bwd_dqkwg``; it has partial gate gradients for each tile."""
    if card.capability in HOPPER or (card.capability in AMPERE and item_bytes == 2):
        return LARGE_TILE
    return 64 if card.capability in (*AMPERE, *ADA) else 32


class Chunks(torch.autograd.Function):
    """``ChunkGatedDeltaRuleFunction`` with norms of queries and keys in the kernel.

    Queries and keys are ``[rows, tokens, heads, key channels]``, values ``[rows, tokens, value
    heads, value channels]``, gate and beta ``[rows, tokens, value heads]``, the state ``[rows,
    value heads, key channels, value channels]`` in fp32.
    """

    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(  # noqa: D102
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        gate: Tensor,
        beta: Tensor,
        state: Tensor | None,
        wants_state: bool,
        tile: int,
    ) -> Any:
        # Copies of what does not lie by token stay until the call returns.
        inputs = [_dense(item) for item in (query, key, value, gate, beta, state)]
        query, key, value, gate, beta, state = inputs  # type: ignore[assignment]
        unit_query, query_scale = _normed(query)
        unit_key, key_scale = _normed(key)
        decay = torch.empty_like(gate, dtype=torch.float32)
        rows, tokens, heads = beta.shape
        inverse = key.new_zeros(rows, tokens, heads, CHUNK_TOKENS)
        output, final = _scan(unit_key, value, wants_state)
        ctx.save_for_backward(
            unit_query, query_scale, unit_key, key_scale, value, decay, beta, beta, inverse, state
        )
        ctx.tile = tile
        return output, final

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:  # noqa: D102
        arrived = [_dense(item) for item in gradients]
        # All stay to the end: what a checkpoint made again has no other owner.
        saved = ctx.saved_tensors
        query, _, key, _, value, decay, _, beta, _, state = saved
        by_query, by_key, by_value, by_beta, by_gate, by_state = _chunks_backward(
            query, key, value, decay, beta, state, arrived[0], ctx.tile
        )
        # The norms' backward; the gradient before it goes when the next has its name.
        by_query = torch.empty_like(query)
        by_key = torch.empty_like(key)
        return by_query, by_key, by_value, by_gate, by_beta, by_state, None, None


def _dense(item: Tensor | None) -> Tensor | None:
    return None if item is None else item.contiguous()


def _normed(x: Tensor) -> tuple[Tensor, Tensor]:
    """``l2norm_fwd``: unit vectors, and the reciprocal of each one's length."""
    return torch.empty_like(x), x.new_empty(x.shape[:-1], dtype=torch.float32)


def _changes(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """``recompute_w_u_fwd``: decayed keys and values of every chunk, by value head."""
    return key.new_empty(*value.shape[:3], key.shape[-1]), torch.empty_like(value)


def _states(key: Tensor, value: Tensor) -> Tensor:
    """A state before each chunk, in the keys' format."""
    rows, tokens, heads, width = value.shape
    return key.new_empty(rows, ceil_div(tokens, CHUNK_TOKENS), heads, key.shape[-1], width)


def _scan(key: Tensor, value: Tensor, wants_state: bool) -> tuple[Tensor, Tensor | None]:
    """``chunk_gated_delta_rule_fwd`` behind the inverse: only its results outlive it."""
    rows, _, heads, width = value.shape
    changes = _changes(key, value)
    states = _states(key, value)
    final = None
    if wants_state:
        final = key.new_zeros(rows, heads, key.shape[-1], width, dtype=torch.float32)
    new_value = torch.empty_like(value)
    output = torch.empty_like(value)
    del changes, states, new_value
    return output, final


def _chunks_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: Tensor | None,
    arrived: Any,
    tile: int,
) -> tuple[Tensor | None, ...]:
    """``chunk_gated_delta_rule_bwd``: what the forward threw away is made again, and stays."""
    by_head = (*value.shape[:3], key.shape[-1])
    changes = _changes(key, value)
    states = _states(key, value)
    new_value = torch.empty_like(value)
    inside = torch.empty_like(arrived)  # chunk_bwd_dv_local
    by_states = _states(query, value)
    by_state = None if state is None else torch.empty_like(state, dtype=torch.float32)
    by_new_value = torch.empty_like(inside)
    del inside
    # chunk_bwd_dqkwg: gradients by value head, summed over the heads of a group.
    by_query, by_key = query.new_empty(by_head), key.new_empty(by_head)
    tiles = ceil_div(key.shape[-1], tile)
    partial = torch.empty(tiles, *decay.shape, dtype=torch.float32, device=decay.device)
    by_change = torch.empty_like(changes[0])
    by_query = _summed(by_query, query)
    by_key = _summed(by_key, key)
    by_gate = partial.sum(0)
    del partial
    # prepare_wy_repr_bwd
    more_key, by_value = key.new_empty(by_head), torch.empty_like(value)
    more_gate, by_beta = torch.empty_like(decay), torch.empty_like(beta)
    more_key = _summed(more_key, key)
    del by_new_value
    by_key.add_(more_key)
    by_gate.add_(more_gate)
    by_gate = torch.empty_like(by_gate)  # chunk_local_cumsum
    del changes, states, new_value, by_states, by_change, more_key, more_gate
    return by_query, by_key, by_value, by_beta, by_gate, by_state


def _summed(gradient: Tensor, like: Tensor) -> Tensor:
    rows, tokens, heads, width = like.shape
    if gradient.shape[2] == heads:
        return gradient
    return gradient.view(rows, tokens, heads, -1, width).sum(3)


class Recurrence(torch.autograd.Function):
    """``FusedRecurrentFunction``: one token after another; it has no backward."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, wants_state: bool, query: Tensor, key: Tensor, value: Tensor, *others: Any
    ) -> Any:
        inputs = [_dense(item) for item in (query, key, value, *others)]
        output = torch.empty_like(inputs[2])  # type: ignore[arg-type]
        rows, _, heads, width = value.shape
        final = None
        if wants_state:
            final = query.new_empty(rows, heads, key.shape[-1], width, dtype=torch.float32)
        del inputs
        return output, final

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: D102
        raise ValueError(
            "model: flash-linear-attention has no backward for linear attention that goes token "
            "by token; choose a model without linear attention."
        )


class Convolution(torch.autograd.Function):
    """``CausalConv1dFn`` with an activation: input ``[rows, channels, tokens]``, any layout."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: D102
        if x.stride(2) != 1 and x.stride(1) != 1:
            x = x.contiguous()
        bias = _dense(bias)
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


def _functions(card: CardTraits, ran: Callable[[str], None]) -> dict[str, Callable[..., Any]]:
    """What stands in for which name of a modeling file."""

    def chunks(
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
        given = (query, key, value, g, beta, initial_state, output_final_state, tile)
        return Chunks.apply(*given)  # type: ignore[no-untyped-call]

    def recurrence(
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
        given = (output_final_state, query, key, value, g, beta, initial_state)
        return Recurrence.apply(*given)  # type: ignore[no-untyped-call]

    def convolution(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        activation: str | None = None,
        seq_idx: Tensor | None = None,
        **_: Any,
    ) -> Any:
        _refuse(seq_idx)
        return Convolution.apply(x, weight, bias)  # type: ignore[no-untyped-call]

    def update(
        x: Tensor,
        conv_state: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        activation: str | None = None,
    ) -> Tensor:
        return torch.empty_like(x)  # the state is written over

    return {
        "torch_chunk_gated_delta_rule": chunks,
        "torch_recurrent_gated_delta_rule": recurrence,
        "causal_conv1d_fn": convolution,
        "causal_conv1d_update": update,
    }


def _refuse(boundaries: Tensor | None) -> None:
    if boundaries is not None:
        raise ValueError(
            "batch_shape: linear attention that keeps packed sequences apart is not modelled in a "
            "dry run; set batch_shape to full or padded."
        )


@contextmanager
def kernels(card: CardTraits, ran: Callable[[str], None]) -> Iterator[None]:
    """Inside, layers of linear attention run as with the packages; ``ran`` is told the sentence."""
    functions = _functions(card, ran)
    with ExitStack() as stack:
        for family in FAMILIES:
            modeling = import_module(_modeling(family))
            stack.enter_context(patch.multiple(modeling, **functions))
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
