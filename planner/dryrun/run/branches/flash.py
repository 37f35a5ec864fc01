"""flash-attn 2 where it is not installed: transformers' own code around declared kernels.

transformers' ``flash_attention_forward`` runs unchanged (layouts, casts, which of its three
branches); what it reads from data is answered from the plan, and the package's functions are
torch's flash operators, which keep and return the same tensors: queries, keys, values, output,
the log-sum-exp, boundaries of sequences and the random state (flash_attn_interface.py,
flash-attn 2.8). Their scratch is in the table of workspaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers.modeling_flash_attention_utils as original
from torch import Tensor
from transformers import modeling_utils
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, flash_attention_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from planner.dryrun.run.branches.masks import Asked, flash_mask

NAME = "headroom_flash"

_LOAD = original.lazy_import_flash_attention


def register() -> None:
    """Let models be made with :data:`NAME`; what it does is decided by :func:`replacements`."""
    if NAME not in ALL_ATTENTION_FUNCTIONS:
        ALL_ATTENTION_FUNCTIONS.register(NAME, flash_attention_forward)
        ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, flash_attention_mask)
        modeling_utils.lazy_import_flash_attention = _load  # type: ignore[attr-defined]


@contextmanager
def masks(shape: Asked) -> Iterator[None]:
    """Inside, the mask of :data:`NAME` is that of a batch of ``shape``."""
    register()
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, flash_mask(shape))
    try:
        yield
    finally:
        ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, flash_attention_mask)


def _load(implementation: str | None, *args: Any, **kwargs: Any) -> Any:
    """A model's constructor asks for the package at once; of ours there is nothing to load."""
    return None if implementation == NAME else _LOAD(implementation, *args, **kwargs)


def replacements(shape: Asked, sequences: Callable[[], int]) -> dict[str, Any]:
    """Attributes of ``transformers.modeling_flash_attention_utils`` and what stands in for them.

    Args:
        shape: the shape of the batch at the moment.
        sequences: how many sequences a packed row holds.
    """
    kernels = (flash_attn_func, flash_attn_varlen_func, None, original._pad_input, _never)
    keywords = original._lazy_define_process_function(flash_attn_varlen_func)  # type: ignore[no-untyped-call]

    def is_packed_sequence(position_ids: Tensor | None, batch_size: int) -> bool:
        if position_ids is None or batch_size != 1 or position_ids.shape[-1] == 1:
            return False
        increasing = torch.arange(position_ids.shape[1], device=position_ids.device)
        (increasing + position_ids.min() - position_ids).abs().sum().bool()
        return shape() == "packed"

    def prepare_fa_kwargs_from_position_ids(position_ids: Tensor) -> Any:
        position_ids = position_ids.reshape(-1)
        _ = position_ids == position_ids.min()
        boundaries = position_ids.new_empty(sequences() + 1, dtype=torch.int32)
        longest = position_ids.shape[0]
        return (boundaries, boundaries), (longest, longest)

    return {
        "lazy_import_flash_attention": lambda *_, **__: (kernels, (keywords, dict)),
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


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
) -> Tensor:
    """The package's kernel for rows of one length, by token: ``[sequence, token, head, size]``."""
    return _forward(q, k, v, None, None, q.shape[1], k.shape[1], dropout_p, softmax_scale, causal)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    block_table: Tensor | None = None,
) -> Tensor:
    """The package's kernel for sequences end to end: ``[token, head, size]``."""
    lengths = (max_seqlen_q, max_seqlen_k)
    return _forward(q, k, v, cu_seqlens_q, cu_seqlens_k, *lengths, dropout_p, softmax_scale, causal)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    boundaries_q: Tensor | None,
    boundaries_k: Tensor | None,
    longest_q: int,
    longest_k: int,
    dropout: float,
    scale: float | None,
    causal: bool,
) -> Tensor:
    size = q.shape[-1]
    missing = -size % 8
    if missing:
        q, k, v = (torch.nn.functional.pad(item, (0, missing)) for item in (q, k, v))
    output: Tensor = torch.ops.aten._flash_attention_forward(
        q,
        k,
        v,
        boundaries_q,
        boundaries_k,
        longest_q,
        longest_k,
        dropout,
        causal,
        False,
        scale=size**-0.5 if scale is None else scale,
    )[0]
    return output[..., :size] if missing else output


def _never(*_: Any) -> Any:
    raise ValueError(
        "attention: flash attention with padding on the keys alone is not modelled in a dry run."
    )
