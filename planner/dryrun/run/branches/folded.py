"""Experts with their adapters folded in, on a device that has no autocast. Imports torch and peft.

peft 0.21.2 folds under ``torch.autocast(..., enabled=False)`` of the weights' device
(``tuners/lora/layer.py``, ``_LoraFactorsProxy``), which torch refuses for ``meta``. A plan that
autocasts does not run there, so there is nothing to switch off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor


@contextmanager
def folded_on_meta() -> Iterator[None]:
    """Inside, experts on ``meta`` are folded as they are elsewhere."""
    from peft.tuners.lora.layer import _LoraFactorsProxy as Proxy

    fold: Any = Proxy.forward

    def forward(proxy: Any, weight: Tensor) -> Tensor:
        if not weight.is_meta:
            return fold(proxy, weight)  # type: ignore[no-any-return]
        return torch.baddbmm(weight, proxy.lhs, proxy.rhs, alpha=proxy.scaling)

    with patch.object(Proxy, "forward", forward):
        yield
