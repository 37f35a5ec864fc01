"""What TRL keeps in host RAM beside accelerate, where host and device are one memory.

Its own ``OffloadActivations`` decides what goes, when it goes and when it is brought back; it knows
cards only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from trl.models import activation_offloading

from planner.dryrun.run.stage import DryStage
from planner.launch.huggingface.run import offloading as below
from planner.launch.huggingface.run.offloading import on_host
from planner.plan import Plan
from planner.steps.stage import Stage


@contextmanager
def offloading(plan: Plan, stage: Stage) -> Iterator[None]:
    """Inside, what a plan offloads goes to host RAM and comes back although there is no card.

    Args:
        plan: what is trained; nothing is done where all of it stays.
        stage: where, with data or without; a card does all of it itself.
    """
    with ExitStack() as stack:
        stack.enter_context(below.offloading(plan, stage))
        if stage.device.type != "cuda" and plan.activation_offload:
            stack.enter_context(_activations(stage))
        yield


@contextmanager
def _activations(stage: Stage) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, value in (
            (activation_offloading, "torch", Card(stage)),
            (torch.Tensor, "record_stream", lambda *_: None),
        ):
            stack.enter_context(patch.object(owner, name, value))
        stack.enter_context(patch.object(torch.cpu.Stream, "synchronize", _nothing, create=True))
        if isinstance(stage, DryStage):
            stack.enter_context(patch.object(torch.UntypedStorage, "data_ptr", _address))
        yield


class Card:
    """torch, as TRL's offloading asks it for a card: its streams are ``torch.cpu``'s.

    What is made for the host is a copy, and so is what is brought back. Nothing is pinned.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        device = SimpleNamespace(type=stage.device.type)
        self.accelerator = SimpleNamespace(current_accelerator=lambda: device)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def get_device_module(self, _: str) -> SimpleNamespace:
        """Streams that can be told apart; memory that bitsandbytes has left goes back."""
        names = ("Stream", "current_stream", "stream")
        streams = {name: getattr(torch.cpu, name) for name in names}
        return SimpleNamespace(**streams, empty_cache=self._stage.empty_cache)

    def empty_like(self, tensor: torch.Tensor, **_: Any) -> Waiting:
        """Room for a tensor in host RAM."""
        return Waiting(self._stage, lambda: torch.empty_like(tensor))

    def empty(self, size: int, dtype: torch.dtype, **_: Any) -> Waiting:
        """Room for so many values."""
        device = self._stage.device
        return Waiting(self._stage, lambda: torch.empty(size, dtype=dtype, device=device))


class Waiting:
    """A tensor in host RAM."""

    def __init__(self, stage: Stage, make: Callable[[], torch.Tensor]) -> None:
        with on_host(stage):
            self._kept = make()

    def copy_(self, tensor: torch.Tensor, **_: Any) -> None:
        """What waits."""
        self._kept.copy_(tensor)

    def to(self, *_: Any, **__: Any) -> torch.Tensor:
        """As a new tensor on the device."""
        return self._kept.clone()


def _address(storage: torch.UntypedStorage) -> int:
    """Without data a storage has no address; this one is no other's, nor within one."""
    return int(storage._cdata) << 32


def _nothing(*_: Any) -> None:
    return None
