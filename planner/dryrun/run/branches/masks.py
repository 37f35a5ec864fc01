"""What transformers' mask code asks of a batch's values, answered from the plan.

The functions replaced read data (is every token real? does a row hold several sequences?) or ask
whether a tensor is fake. Each one here runs the operators of the original, version 5.23, and
answers what a batch of the plan's shape would have made it answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from transformers.masking_utils import create_recurrent_attention_mask

BatchShape = Literal["full", "padded", "packed"]
Asked = Callable[[], BatchShape]


class Shaped:
    """Something that answers for batches of one shape, and for another for a while."""

    batch_shape: BatchShape

    @contextmanager
    def shaped(self, batch_shape: BatchShape) -> Iterator[None]:
        """Inside, batches are of another shape (the rollouts of a packed plan, say)."""
        before, self.batch_shape = self.batch_shape, batch_shape
        try:
            yield
        finally:
            self.batch_shape = before


def fast_all(shape: Asked) -> Callable[[Tensor], bool]:
    """``masking_utils.fast_all``: whether a mask is all true."""

    def answer(tensor: Tensor) -> bool:
        _ = tensor.sum() == tensor.numel()
        return shape() != "padded"

    return answer


def find_packed_sequence_indices(shape: Asked) -> Callable[[Tensor], Tensor | None]:
    """``masking_utils.find_packed_sequence_indices``: which sequence each token belongs to."""

    def answer(position_ids: Tensor) -> Tensor | None:
        first = position_ids[:, :1] - 1
        difference = torch.diff(position_ids, prepend=first, dim=-1)
        indices = (difference != 1).cumsum(-1)
        (indices[:, -1] == 0).all()
        return indices if shape() == "packed" else None

    return answer


def is_tracing(shape: Asked) -> Callable[..., bool]:
    """``masking_utils.is_tracing``: never, except where only that keeps values from being read.

    ``create_recurrent_attention_mask`` reads its mask inside the condition, unless tracing; it is
    told so when the batch has padding, and builds the mask as it then would.
    """

    def answer(tensor: Any = None) -> bool:
        if sys._getframe(1).f_code is not create_recurrent_attention_mask.__code__:
            return False
        (tensor == 1).all()
        return shape() == "padded"

    return answer


def flash_mask(shape: Asked) -> Callable[..., Tensor | None]:
    """``masking_utils.flash_attention_mask``: the mask itself when there is padding."""

    def answer(
        batch_size: int,
        q_length: int,
        kv_length: int,
        q_offset: int = 0,
        kv_offset: int = 0,
        mask_function: Any = None,
        attention_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor | None:
        if attention_mask is None:
            return None
        attention_mask = attention_mask[:, -kv_length:]
        if attention_mask.shape[1] == kv_length:
            attention_mask.all()
            if shape() != "padded":
                return None
        return attention_mask

    return answer
