"""What a plan's Trainer asks of packages that compute on cards only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from accelerate import Accelerator

from planner.dryrun.run.stage import DryStage
from planner.launch.huggingface.run.eight_bit import bitsandbytes
from planner.plan import Plan
from planner.plan.fields import EIGHT_BIT
from planner.steps import models


@contextmanager
def packages(plan: Plan, stage: DryStage, *, on_card: bool) -> Iterator[None]:
    """Inside, a trainer of the plan's finds what it asks for.

    Args:
        plan: what it trains.
        stage: where, without data.
        on_card: whether a card's way is taken: a CPU pages no optimizer state.
    """
    with ExitStack() as stack:
        if plan.optimizer in EIGHT_BIT:
            paged = stage.tracker.on_host if on_card else None
            stack.enter_context(bitsandbytes(paged))
        stack.enter_context(real(plan, on_cpu=True))
        if plan.liger:
            applied = lambda model, _: stage.liger(models.causal(model))  # noqa: E731
            stack.enter_context(patch("transformers.trainer.apply_liger_kernel", applied))
        yield


@contextmanager
def real(plan: Plan, *, on_cpu: bool) -> Iterator[None]:
    """Of these what tensors with data need as well; a card has fp16 of its own."""
    with ExitStack() as stack:
        if plan.dtype == "fp16" and on_cpu:
            stack.enter_context(scaled())
        yield


@contextmanager
def scaled() -> Iterator[None]:
    """fp16 as on a card: of a CPU accelerate asks for neither autocast nor a scaler.

    The scaler is torch's own. Its update reads whether any gradient is infinite; none is.
    """
    make = Accelerator.__init__

    @wraps(make)
    def made(accelerator: Any, *args: Any, **kwargs: Any) -> None:
        with patch.object(Accelerator, "device", property(lambda _: torch.device("cpu"))):
            make(accelerator, *args, **kwargs)
        if accelerator.mixed_precision == "fp16" and accelerator.scaler is None:
            accelerator.native_amp = True
            accelerator.scaler = torch.amp.GradScaler("cpu")

    def stepped(_: Any, optimizer: Any, __: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    with (
        patch.object(Accelerator, "__init__", made),
        patch.object(torch.amp.GradScaler, "_maybe_opt_step", stepped),
    ):
        yield
