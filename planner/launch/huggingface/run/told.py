"""What a trainer did, beside what the plan's setup says it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper

from planner.plan import Plan
from planner.plan.frameworks import framework_named
from planner.setup.setup import setup_of
from planner.steps.stage import DTYPES
from planner.values.model_setup import ModelSetup

NAMES = {dtype: name for name, dtype in DTYPES.items()}


def differences(trainer: Any, plan: Plan) -> list[str]:
    """A sentence for everything that the trainer did and the estimate supposes otherwise."""
    setup = setup_of(plan)
    reference = getattr(trainer, "ref_model", None)
    found = [
        *_stored("policy", trainer.model, setup["policy"]),
        *_presence(reference is not None, setup.model("reference") is not None),
    ]
    planned = setup.model("reference")
    if reference is not None and planned is not None:
        found += _stored("reference", reference, planned)
    accelerator = trainer.accelerator
    # FSDP2 casts what it gathers.
    autocast = accelerator.mixed_precision != "no" and not accelerator.is_fsdp2
    supposed = setup["policy"].autocast or setup.autocasts_adapters
    # Around 4-bit weights everything is in the compute dtype already.
    if autocast != supposed and plan.finetuning != "qlora":
        found.append(f"computes {'under' if autocast else 'without'} autocast")
    recomputes = bool(trainer.model.is_gradient_checkpointing) or _wrapped(trainer.model)
    if recomputes != (plan.gradient_checkpointing == "full"):
        found.append(f"{'recomputes' if recomputes else 'keeps'} what the layers save")
    whose = framework_named(plan.framework).label
    return [f"{whose}'s trainer {one}; the estimate supposes otherwise." for one in found]


def _wrapped(model: Any) -> bool:
    """Whether accelerate checkpoints layers in the trainer's place."""
    return any(isinstance(each, CheckpointWrapper) for each in model.modules())


def _presence(there: bool, planned: bool) -> Iterator[str]:
    if there != planned:
        yield f"{'loads' if there else 'has no'} reference of its own"


def _stored(role: str, model: Any, planned: ModelSetup) -> Iterator[str]:
    """Frozen weights below adapters are looked at, and what is trained with its gradients."""
    dtypes = {weight.dtype for name, weight in model.named_parameters() if "lora_" not in name}
    dtypes.discard(torch.uint8)  # two values of 4 bits
    stored = sorted(NAMES.get(dtype, str(dtype)) for dtype in dtypes)
    if stored != [planned.stored]:
        yield f"keeps the {role} in {' and '.join(stored)}"
