"""flash-attn 2 where it is not installed: transformers' own code around declared kernels.

transformers' ``flash_attention_forward`` runs unchanged (layouts, casts, which of its three
branches); what it reads from data is answered from the plan, and the package's functions are
torch's flash operators, which keep and return the same tensors: queries, keys, values, output,
the log-sum-exp, boundaries of sequences and the random state (flash_attn_interface.py,
flash-attn 2.8). Their scratch is in the table of workspaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import transformers.modeling_flash_attention_utils as original
from torch import Tensor
from transformers import modeling_utils
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, flash_attention_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from planner.dryrun.run.branches.masks import Shaped
from planner.dryrun.run.branches.sdpa import padded_heads

NAME = "headroom_flash"

_LOAD = original.lazy_import_flash_attention


def register() -> None:
    """Let models be made with :data:`NAME`; what it does is decided by :func:`kernels`."""
    if NAME not in ALL_ATTENTION_FUNCTIONS:
        ALL_ATTENTION_FUNCTIONS.register(NAME, flash_attention_forward)
        ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, flash_attention_mask)
        modeling_utils.lazy_import_flash_attention = _load  # type: ignore[attr-defined]


@contextmanager
def kernels(shaped: Shaped) -> Iterator[None]:
    """Inside, :data:`NAME` runs for batches of a shape."""
    register()
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, shaped.flash_mask)
    try:
        with patch.multiple(original, **_replacements(shaped)):
            yield
    finally:
        ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, flash_attention_mask)


def _load(implementation: str | None, *args: Any, **kwargs: Any) -> Any:
    """A model's constructor asks for the package at once; of ours there is nothing to load."""
    return None if implementation == NAME else _LOAD(implementation, *args, **kwargs)


def _replacements(shaped: Shaped) -> dict[str, Any]:
    """What stands in for functions of ``transformers.modeling_flash_attention_utils``."""
    functions = (flash_attention, flash_attention, None, original._pad_input, _never)
    keywords = original._lazy_define_process_function(flash_attention)  # type: ignore[no-untyped-call]

    def is_packed_sequence(position_ids: Tensor | None, batch_size: int) -> bool:
        if position_ids is None or batch_size != 1 or position_ids.shape[-1] == 1:
            return False
        increasing = torch.arange(position_ids.shape[1], device=position_ids.device)
        (increasing + position_ids.min() - position_ids).abs().sum().bool()
        return shaped.sequences(position_ids) > 1

    def prepare_fa_kwargs_from_position_ids(position_ids: Tensor) -> Any:
        sequences = shaped.sequences(position_ids)
        position_ids = position_ids.reshape(-1)
        _ = position_ids == position_ids.min()
        boundaries = position_ids.new_empty(sequences + 1, dtype=torch.int32)
        longest = position_ids.shape[0]
        return (boundaries, boundaries), (longest, longest)

    return {
        "lazy_import_flash_attention": lambda *_, **__: (functions, (keywords, dict)),
        "_get_unpad_data": _get_unpad_data,
        "_is_packed_sequence": is_packed_sequence,
        "prepare_fa_kwargs_from_position_ids": prepare_fa_kwargs_from_position_ids,
    }


def _get_unpad_data(attention_mask: Tensor) -> tuple[Tensor, Tensor, int]:
    """Where the tokens are. How many is not known: all of them, which is the most there can be."""
    lengths = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = attention_mask.new_empty(attention_mask.numel(), dtype=torch.int64)
    lengths.max()
    boundaries = torch.cumsum(lengths, dim=0, dtype=torch.int32)
    boundaries = torch.nn.functional.pad(boundaries, (1, 0))
    return indices, boundaries, attention_mask.shape[-1]


def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    block_table: Tensor | None = None,
) -> Tensor:
    """The package's two kernels, under the names that transformers looks for.

    With boundaries for sequences end to end, ``[token, head, size]``; without for rows of one
    length, ``[sequence, token, head, size]``.
    """
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    longest = max_seqlen_q or q.shape[1], max_seqlen_k or k.shape[1]
    return padded_heads(
        lambda q, k, v: torch.ops.aten._flash_attention_forward(
            *(q, k, v, cu_seqlens_q, cu_seqlens_k, *longest, dropout_p, causal, False), scale=scale
        ),
        *(q, k, v),
    )


def _never(*_: Any) -> Any:
    raise ValueError(
        "attention: flash attention with padding on the keys alone is not modelled in a dry run."
    )
