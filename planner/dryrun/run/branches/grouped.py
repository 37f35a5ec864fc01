"""Grouped products of experts in formats that torch's shape rule refuses. Imports torch.

transformers 5.23.0 asks ``torch.nn.functional.grouped_mm`` for experts in every format on cards
from capability 8.0 on (``integrations/moe.py``, ``_can_use_grouped_mm``). CUDA takes them all:
``_grouped_mm_cuda`` (aten/src/ATen/native/cuda/GroupedBlas.cpp) makes one output and, where it has
no fast kernel, multiplies group by group straight into it (``_grouped_mm_fallback``,
GroupedMMUtils.h), which takes nothing beside. Torch's rule for tensors without data (2.13,
``_meta_registrations.py``) stands for the fast kernel only and says that inputs must be bf16.
Older cards run transformers' own loop, which has the same sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch._meta_registrations as registrations
from torch import Tensor

_COMMON: Any = registrations._meta_grouped_mm_common
BY_GROUP = (torch.float32, torch.float16)


@contextmanager
def grouped_products() -> Iterator[None]:
    """Inside, fp32 and fp16 experts have an output as they have on a card."""
    with patch.object(registrations, "_meta_grouped_mm_common", _grouped):
        yield


def _grouped(
    mat_a: Tensor, mat_b: Tensor, scale_a: Any, scale_b: Any, offs: Any = None, **given: Any
) -> Any:
    if scale_a is None and mat_a.dtype == mat_b.dtype and mat_a.dtype in BY_GROUP:
        out_dtype = given.get("out_dtype")
        make: Any = registrations._create_grouped_mm_output_tensor
        return make(mat_a, mat_b, offs, out_dtype)
    return _COMMON(mat_a, mat_b, scale_a, scale_b, offs=offs, **given)
