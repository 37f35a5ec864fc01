"""Models whose weights are made as shards, so that no device ever holds a whole one.

Frameworks load a sharded model so; a model of many GPUs would not fit on one to be cut there, and
what was whole for a moment would stay in the allocator's cache. Imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.distributed.tensor import DTensor

STD = 0.02
"""Of random weights, as transformers' configs have it."""


@contextmanager
def weightless() -> Iterator[None]:
    """Inside, modules keep no weights: each goes as soon as it is there. Buffers stay."""
    register = nn.Module.register_parameter

    def taken(module: nn.Module, name: str, weight: nn.Parameter | None) -> None:
        if weight is not None and not weight.is_meta:
            weight = nn.Parameter(weight.detach().to("meta"), requires_grad=weight.requires_grad)
        register(module, name, weight)

    with patch.object(nn.Module, "register_parameter", taken):
        yield


def with_values(model: nn.Module, device: torch.device) -> None:
    """Give random values on a device to whatever of a sharded model has none."""

    def made(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor, device=device) if tensor.is_meta else tensor

    empty = {name for name, weight in model.named_parameters() if weight.is_meta}
    apply: Any = model._apply
    apply(made)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name not in empty:
                continue
            own = weight.to_local() if isinstance(weight, DTensor) else weight
            if own.dim() > 1:
                own.normal_(std=STD)
            else:
                own.fill_(0.0 if name.endswith("bias") else 1.0)
