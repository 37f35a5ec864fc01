"""Which kernel ``scaled_dot_product_attention`` takes on a CUDA card. Imports no torch.

The rules of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp at torch 2.13 for dense
tensors, in its order: cuDNN first on Hopper and data-centre Blackwell (seen in a profile of an
H100 with torch 2.13.0+cu130), elsewhere flash, the memory-efficient kernel, and plain arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.catalog.cudnn import comes_first
from planner.dryrun.run.branches.card import CardTraits

Backend = Literal["cudnn", "flash", "efficient", "math", "cpu"]
"""The last is the CPU's own; no card chooses it."""

CUDNN_WIDE_HEADS_FROM = 91000
OLDEST_FLASH, NEWEST = (8, 0), (12, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What of a call the rules look at."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    tokens: int
    key_tokens: int
    item_bytes: int
    half: Literal["bf16", "fp16", ""]
    """Which 16-bit format, if it is one."""
    masked: bool
    causal: bool
    grouped: bool
    """``enable_gqa``."""
    dropout: float
    trains: bool


def backend(call: Call, card: CardTraits) -> Backend:
    """The first kernel of the card's order that takes the call."""
    if comes_first(card.compute_capability, card.cudnn_version) and _cudnn(call, card):
        return "cudnn"
    if _flash(call, card):
        return "flash"
    if _efficient(call, card):
        return "efficient"
    # Where cuDNN is not preferred it stands behind plain arithmetic, which takes everything.
    return "math"


def _same_heads(call: Call, *, groups: bool) -> bool:
    if call.heads == call.kv_heads:
        return True
    return groups and call.grouped and call.heads % call.kv_heads == 0


def _low_precision(call: Call, card: CardTraits) -> bool:
    return call.half == "fp16" or (call.half == "bf16" and card.capability[0] >= 8)


def _cudnn(call: Call, card: CardTraits) -> bool:
    # 2.13 lies between two versions of the limit on head sizes; both agree up to 128.
    limit = (
        256 if card.capability == (9, 0) and card.cudnn_version >= CUDNN_WIDE_HEADS_FROM else 128
    )
    if card.capability[0] == 10 and (call.head_dim, call.value_dim) == (192, 128):
        limit = 192
    return (
        OLDEST_FLASH <= card.capability <= NEWEST
        and _low_precision(call, card)
        and _same_heads(call, groups=True)
        and max(call.head_dim, call.value_dim) <= limit
        and call.head_dim % 8 == 0
        and call.value_dim % 8 == 0
        and call.key_tokens != 1
        and not (call.dropout and call.tokens == 1)
    )


def _flash(call: Call, card: CardTraits) -> bool:
    small = card.capability in ((8, 6), (8, 7), (8, 9), (12, 0), (12, 1))
    too_wide = call.head_dim > 192 and (call.head_dim <= 224 or call.dropout > 0)
    return (
        not call.masked
        and OLDEST_FLASH <= card.capability <= NEWEST
        and call.head_dim == call.value_dim <= 256
        and not (small and call.trains and too_wide)
        and not (call.causal and call.tokens != call.key_tokens)
        and _low_precision(call, card)
        and _same_heads(call, groups=True)
    )


def _efficient(call: Call, card: CardTraits) -> bool:
    # Groups come with a later version (supports_gqa is false at 2.13).
    if call.half == "bf16" and card.capability[0] < 8:
        return False
    tensor_cores = card.capability[0] >= 8 or (card.capability[0] == 7 and bool(call.half))
    alignment = 4 if card.capability[0] >= 8 else 1
    if tensor_cores:
        alignment = max(alignment, 16 // call.item_bytes)
    return (
        (5, 0) <= card.capability <= NEWEST
        and call.item_bytes in (2, 4)
        and _same_heads(call, groups=False)
        and call.head_dim % alignment == 0
        and call.value_dim % alignment == 0
    )
