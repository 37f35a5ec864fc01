"""The gated delta rule of flash-linear-attention 0.6.0: its tensors without the arithmetic.

Read in fla-core 0.6.0 (https://github.com/fla-org/flash-linear-attention): what is made, kept and
freed, in its order; Triton's kernels themselves take nothing beside. Without the optional backends
(FlashQLA, TileLang, splitting one card's sequence), which replace kernels by other ones.

==============  ================================================================================
chunks          ``ops/gated_delta_rule/``: ``chunk.py`` 33-393, ``chunk_fwd.py`` 332-428,
                ``wy_fast.py`` 255-347; ``ops/common/``: ``chunk_delta_h.py`` 688-822,
                ``chunk_o.py`` 544-586 and 654-793; ``modules/norm/l2norm.py`` 112-168;
                ``ops/utils/cumsum.py`` 253-293
one token       ``ops/gated_delta_rule/fused_recurrent.py`` 184-306
inputs          made contiguous by ``input_guard``, ``utils/decorators.py`` 97-160
==============  ================================================================================

Imports torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd

from planner.dryrun.run.branches.card import CardTraits
from planner.numeric import ceil_div

CHUNK_TOKENS = 64
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

    Its sums run under autocast as its forward did; that of the fakes' device is the CPU's.
    Queries and keys are ``[rows, tokens, heads, key channels]``, values ``[rows, tokens, value
    heads, value channels]``, gate and beta ``[rows, tokens, value heads]``, the state ``[rows,
    value heads, key channels, value channels]`` in fp32.
    """

    @staticmethod
    @custom_fwd(device_type="cpu")  # type: ignore[untyped-decorator]
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
        inputs = [dense(item) for item in (query, key, value, gate, beta, state)]
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
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:  # noqa: D102
        arrived = [dense(item) for item in gradients]
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


def dense(item: Tensor | None) -> Tensor | None:
    """A contiguous tensor, a copy only where it does not lie so."""
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
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, *others: Any
    ) -> Any:
        *tensors, wants_state, _ = others
        inputs = [dense(item) for item in (query, key, value, *tensors)]
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
