"""Numbers that models read from tensors only to check them, answered without data."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import torch

CHECKS = ("modeling_xlm.py", "modeling_reformer.py")
"""Where the number is compared with a length and nothing is sized by it (transformers 5.23.0)."""


def checked() -> AbstractContextManager[Any]:
    """Inside, those files read 0 from tensors without data; any other reader fails as ever."""
    item = torch.Tensor.item

    def read(tensor: torch.Tensor) -> Any:
        reader = sys._getframe(1).f_code.co_filename
        return 0 if tensor.is_meta and reader.endswith(CHECKS) else item(tensor)

    return patch.object(torch.Tensor, "item", read)
