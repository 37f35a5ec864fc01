"""Processes that train, and how they share the state, as a plan has them."""

from __future__ import annotations

from planner.plan import Plan
from planner.values.sharding import sharding_of


def training_gpus(plan: Plan) -> int:
    """GPUs that run the trainer: all but a separate engine's."""
    return int(plan.gpus) - int(plan.rollout_gpus)


def nodes(plan: Plan) -> int:
    """Machines the trainer runs on."""
    return max(1, training_gpus(plan) // int(plan.gpus_per_node))


def zero(plan: Plan) -> bool:
    """Whether DeepSpeed shards the state."""
    return sharding_of(plan).zero > 0


def activations_by_accelerate(plan: Plan) -> bool:
    """Whether accelerate checkpoints the layers, since only it can offload under FSDP2."""
    return bool(plan.activation_offload) and sharding_of(plan).fsdp == 2
