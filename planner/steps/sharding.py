"""How a model is spread over GPUs: not at all, or by PyTorch's FSDP2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule

from planner.plan import Plan
from planner.steps import models
from planner.steps.stage import DTYPES, Stage

Wrapper = Callable[[Stage, nn.Module, Plan], nn.Module]
"""Takes a stage, a model and a plan; returns the model, sharded."""


def unsharded(stage: Stage, model: nn.Module, plan: Plan) -> nn.Module:
    """The model as it is."""
    return model


def reshard(model: nn.Module) -> None:
    """Give back weights that a forward without gradient has left gathered.

    Where layers are not resharded after their forward, only a backward would do so.
    """
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def reduces(model: nn.Module, whether: bool) -> None:
    """Whether the next backward reduces gradients, or keeps them whole; nothing where unsharded."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(whether)


def fully_sharded(mesh: Any) -> Wrapper:
    """A wrapper that shards each layer, then the rest, over the mesh (FSDP2)."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    def wrap(stage: Stage, model: nn.Module, plan: Plan) -> nn.Module:
        trains = any(weight.requires_grad for weight in model.parameters())
        policy = MixedPrecisionPolicy(DTYPES[plan.dtype], DTYPES[plan.reduce_dtype])
        options = {
            "mesh": mesh,
            "mp_policy": policy,
            "reshard_after_forward": plan.reshard_after_forward or not trains,
        }
        for layer in models.layers(model):
            fully_shard(layer, **options)
        fully_shard(model, **options)
        return model

    return wrap
