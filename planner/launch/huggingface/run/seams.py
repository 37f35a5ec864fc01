"""Where transformers' Trainer and accelerate meet tensors without data: what is replaced, and why.

``docs/trainer-step.md`` lists these seams for readers; a test takes each away and sees what breaks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from transformers import Trainer, TrainingArguments

from planner.dryrun.run.world import On

Answers = Mapping[Any, Callable[..., Any]]


@contextmanager
def seams(
    device: torch.device, on: On, empty_cache: Callable[[], None]
) -> Iterator[None]:
    """Inside, a Trainer can be made and trained on ``device`` without data.

    Args:
        device: ``meta``, or ``cpu`` for fake tensors.
        on: whose branches optimizers and clipping take.
        empty_cache: what to do where it gives cached memory back.
    """
    with real(device), empties(empty_cache), in_lists() if on == "gpu" else nullcontext():
        yield


@contextmanager
def real(device: torch.device) -> Iterator[None]:
    """Of the seams those that tensors with data need as well."""
    with environment(), devices(device):
        yield


@contextmanager
def environment() -> Iterator[None]:
    """Accelerate keeps its state in one place for a process: the next plan's may be another."""
    with patch.dict(os.environ):
        try:
            yield
        finally:
            AcceleratorState._reset_state(reset_partial_state=True)
            GradientState._reset_state()


@contextmanager
def devices(device: torch.device) -> Iterator[None]:
    """One device, whatever others there are: models are made on it, and nothing is moved to it."""

    def there(arguments: TrainingArguments) -> torch.device:
        _ = arguments._setup_devices  # which finds out about processes, too
        return device

    with (
        patch.object(TrainingArguments, "device", property(there)),
        patch.object(TrainingArguments, "n_gpu", property(lambda _: 1)),
        patch.object(Accelerator, "device", property(lambda _: device)),
        patch.object(Trainer, "_move_model_to_device", lambda *_: None),
    ):
        yield


@contextmanager
def empties(empty_cache: Callable[[], None]) -> Iterator[None]:
    """What happens where a trainer gives cached memory back."""
    with patch("transformers.trainer.clear_device_cache", lambda *_, **__: empty_cache()):
        yield


@contextmanager
def in_lists() -> Iterator[None]:
    """A GPU's way of optimizers and clipping that are not told otherwise: all tensors at once.

    On a CPU or without data they take one after the other.
    """
    with ExitStack() as stack:
        for optimizer in ("adam", "sgd"):
            name = f"torch.optim.{optimizer}._default_to_fused_or_foreach"
            stack.enter_context(patch(name, _chosen))
        stack.enter_context(patch("torch.nn.utils.clip_grad._has_foreach_support", lambda *_: True))
        yield


def _chosen(_: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Whether one kernel updates everything, and whether lists of tensors are."""
    return use_fused and not differentiable, not use_fused and not differentiable


def read(tensor: torch.Tensor) -> bool | int | float:
    """A number that is read of a tensor without data: conditions (is it NaN?) are false."""
    if tensor.dtype == torch.bool:
        return False
    return 1.0 if tensor.dtype.is_floating_point else 1


ANSWERS: Answers = {torch.ops.aten._local_scalar_dense.default: read}
"""What operators give whose answer depends on data, for the tracker."""
