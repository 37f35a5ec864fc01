"""bitsandbytes' 8-bit AdamW where the package is not: its state, and kernels that make nothing.

Read in bitsandbytes 0.50.2 (optim/optimizer.py): moments of one byte a value with an fp32 scale for
each block of 256, two tables of 256 numbers for all, fp32 moments of weights below 4,096 values and
of those that transformers' trainer asks it for (embeddings). Pages of a paged optimizer are no
memory of torch's. Its kernels write in place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from transformers import Trainer

from planner.formulas.state import PAGED_ELEMENTS
from planner.numeric import ceil_div

SMALL, BLOCK, VALUES = 4096, 256, 256
"""Values of the smallest weight with 8-bit moments, of a block, and that a byte can stand for."""

Paged = Callable[[], AbstractContextManager[Any]]
"""Inside, what is made is no memory of torch's."""


class GlobalOptimManager:
    """Knows which modules' weights are to have fp32 moments."""

    def __init__(self) -> None:
        self.wide: list[tuple[torch.nn.Module, str]] = []

    def get_instance(self) -> GlobalOptimManager:
        """The package has one for a process; this one is for an optimizer."""
        return self

    def register_module_override(self, module: Any, name: str, _: Any) -> None:
        """A module's weight has fp32 moments."""
        self.wide.append((module, name))


def optimizer_of(manager: GlobalOptimManager, paged: Paged | None) -> type[torch.optim.Optimizer]:
    """The class that stands for bitsandbytes' ``AdamW``.

    Args:
        manager: knows whose moments are fp32.
        paged: where pages of a paged optimizer are made; None where nothing is paged.
    """

    class AdamW(torch.optim.Optimizer):
        def __init__(
            self, params: Any, *, optim_bits: int, is_paged: bool, **defaults: Any
        ) -> None:
            super().__init__(params, defaults)
            assert optim_bits == 8
            self._paged = paged if is_paged else None
            self._tables: list[torch.Tensor] = []

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            wide = {id(getattr(module, name)) for module, name in manager.wide}
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None and not self.state[weight]:
                        self.state[weight] = self._made(weight, id(weight) in wide)

        def _made(self, weight: torch.Tensor, wide: bool) -> dict[str, Any]:
            if wide or weight.numel() < SMALL:
                return {f"state{place}": self._moment(weight, torch.float32) for place in (1, 2)}
            tables = range(2 - len(self._tables))
            self._tables += [torch.empty(VALUES, device=weight.device) for _ in tables]
            blocks = ceil_div(weight.numel(), BLOCK)
            return {
                **{f"state{place}": self._moment(weight, torch.uint8) for place in (1, 2)},
                **{f"absmax{each}": torch.zeros(blocks, device=weight.device) for each in (1, 2)},
            }

        def _moment(self, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
            large = self._paged is not None and weight.numel() >= PAGED_ELEMENTS
            with self._paged() if large and self._paged else nullcontext():
                return torch.zeros_like(weight, dtype=dtype)

    return AdamW


@contextmanager
def bitsandbytes(paged: Paged | None) -> Iterator[None]:
    """Inside, transformers' trainer finds the package where it makes an optimizer."""
    create = Trainer.create_optimizer

    @wraps(create)
    def created(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        package, optim = ModuleType("bitsandbytes"), ModuleType("bitsandbytes.optim")
        manager = GlobalOptimManager()
        kind = optimizer_of(manager, paged)
        kind.__module__ = package.__name__  # by which the trainer knows it
        told = {"AdamW": kind, "Lion": None, "RMSprop": None, "GlobalOptimManager": manager}
        optim.__dict__.update(told)
        package.optim = optim  # type: ignore[attr-defined]
        with (
            patch.dict(sys.modules, {package.__name__: package, optim.__name__: optim}),
            patch("transformers.trainer_optimizer.is_bitsandbytes_available", lambda *_: True),
            patch.object(torch.Tensor, "data_ptr", _address),
        ):
            return create(trainer, *args, **kwargs)

    with patch.object(Trainer, "create_optimizer", created):
        yield


def _address(tensor: torch.Tensor) -> int:
    """Weights are told apart by their storage: without data they have no address."""
    return int(tensor.untyped_storage()._cdata)
