"""What transformers' mask code asks of a batch's values, answered as it would be of real ones.

The functions replaced read data (is every token real? does a row hold several sequences?) or ask
whether a tensor is fake. Each one here runs the operators of the original, version 5.23, and
answers what a batch of the plan's shape would have made it answer. ``docs/dry-run.md`` lists every
branch of this kind that a dry run meets.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary
from transformers import masking_utils

BatchShape = Literal["full", "padded", "packed"]


class Shaped:
    """Something that answers for batches of one shape, and for another for a while."""

    batch_shape: BatchShape
    lone_rows_whole = False
    """Rows are padded to the longest of their micro-batch: one by itself has no padding."""
    numbered: ClassVar[Any] = WeakIdKeyDictionary()
    """Sequences in a packed row, by its positions, of those that have no values to read."""

    def sequences(self, position_ids: Tensor) -> int:
        """How many sequences a row's positions [1, tokens] number.

        Values are read where there are some. Of positions that nobody made here (a data set's
        rows, filled by texts of any length) there are two: as many as make a mask.
        """
        if self.batch_shape != "packed":
            return 1
        if isinstance(position_ids, FakeTensor) or position_ids.is_meta:
            return int(self.numbered.get(position_ids, 2))
        with _disable_current_modes():
            return 1 + int((position_ids.diff(dim=-1) != 1).sum())

    def whole(self, mask: Tensor) -> bool:
        """Whether a mask [rows, tokens] of a batch leaves no token out."""
        return self.batch_shape != "padded" or (self.lone_rows_whole and mask.shape[0] == 1)

    @contextmanager
    def shaped(self, batch_shape: BatchShape) -> Iterator[None]:
        """Inside, batches are of another shape (the rollouts of a packed plan, say)."""
        before, self.batch_shape = self.batch_shape, batch_shape
        try:
            yield
        finally:
            self.batch_shape = before

    def masks(self) -> AbstractContextManager[Any]:
        """Inside, ``masking_utils`` asks this in place of the data."""
        names = ("fast_all", "find_packed_sequence_indices", "is_tracing")
        answers: Any = {name: getattr(self, name) for name in names}
        return patch.multiple(masking_utils, **answers)  # type: ignore[no-any-return]

    def fast_all(self, tensor: Tensor) -> bool:
        """``masking_utils.fast_all``: whether a mask is all true."""
        _ = tensor.sum() == tensor.numel()
        return self.whole(tensor)

    def find_packed_sequence_indices(self, position_ids: Tensor) -> Tensor | None:
        """``masking_utils.find_packed_sequence_indices``: each token's sequence."""
        first = position_ids[:, :1] - 1
        difference = torch.diff(position_ids, prepend=first, dim=-1)
        indices = (difference != 1).cumsum(-1)
        (indices[:, -1] == 0).all()
        return indices if self.sequences(position_ids) > 1 else None

    def is_tracing(self, tensor: Any = None) -> bool:
        """``masking_utils.is_tracing``: never, except where only that keeps values from being read.

        ``create_recurrent_attention_mask`` reads its mask inside the condition, unless tracing; it
        is told so when the batch has padding, and builds the mask as it then would.
        """
        reads = masking_utils.create_recurrent_attention_mask.__code__
        if sys._getframe(1).f_code is not reads:
            return False
        (tensor == 1).all()
        return not self.whole(tensor)

    def flash_mask(
        self, *, kv_length: int, attention_mask: Tensor | None = None, **_: Any
    ) -> Tensor | None:
        """``masking_utils.flash_attention_mask``: the mask itself when there is padding."""
        if attention_mask is None:
            return None
        attention_mask = attention_mask[:, -kv_length:]
        if attention_mask.shape[1] == kv_length:
            attention_mask.all()
            if self.whole(attention_mask):
                return None
        return attention_mask
