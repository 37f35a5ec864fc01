"""What cannot be of GPUs, shards and engines."""

from __future__ import annotations

import numpy as np

from planner.plan.rules.asked import training_gpus
from planner.rule import Rule
from planner.values.sharding import sharding_of

RULES: tuple[Rule, ...] = (
    Rule(
        "sharding",
        lambda p: sharding_of(p).alone & (training_gpus(p) > 1),
        "sharding none trains on one GPU only.",
        "Set sharding to ddp or fsdp2, or gpus to 1.",
    ),
    Rule(
        "sharding",
        lambda p: sharding_of(p).ddp & (training_gpus(p) < 2),
        "sharding ddp needs at least two training GPUs.",
        "Set sharding to none.",
    ),
    Rule(
        "shard_size",
        lambda p: (p.shard_size != 0) & (p.shard_size > training_gpus(p)),
        "shard_size exceeds the GPUs that train.",
        "Lower shard_size, or set it to 0 for all GPUs.",
    ),
    Rule(
        "shard_size",
        lambda p: (p.shard_size != 0) & (training_gpus(p) % np.maximum(p.shard_size, 1) != 0),
        "shard_size must divide the GPUs that train.",
        "Choose a divisor of the number of training GPUs, or 0 for all of them.",
    ),
    Rule(
        "gpus_per_node",
        lambda p: (p.gpus > p.gpus_per_node) & (p.gpus % p.gpus_per_node != 0),
        "gpus must fill whole nodes.",
        "Make gpus a multiple of gpus_per_node.",
    ),
    Rule(
        "rollout_gpus",
        lambda p: (p.rollout_gpus >= p.gpus) & (p.rollout_gpus > 0),
        "rollout_gpus leaves no GPU to train on.",
        "Lower rollout_gpus or raise gpus.",
    ),
    Rule(
        "rollout_gpus",
        lambda p: (p.rollout == "vllm-separate") & (p.rollout_gpus == 0),
        "A separate engine needs GPUs of its own.",
        "Set rollout_gpus.",
    ),
    Rule(
        "rollout_gpus",
        lambda p: (p.rollout != "vllm-separate") & (p.rollout_gpus != 0),
        "rollout_gpus is for rollout vllm-separate.",
        "Set rollout_gpus to 0.",
    ),
    Rule(
        "rollout_overlap",
        lambda p: p.rollout_overlap != "synchronous" and p.rollout != "vllm-separate",
        "Only dedicated rollout GPUs generate while the trainer trains.",
        "Set rollout_overlap to synchronous, or rollout to vllm-separate.",
    ),
    Rule(
        "rollout_tensor_parallel",
        lambda p: (p.rollout == "vllm-colocated") & (p.gpus % p.rollout_tensor_parallel != 0),
        "rollout_tensor_parallel must divide gpus.",
        "Choose a divisor of gpus.",
    ),
    Rule(
        "rollout_tensor_parallel",
        lambda p: (
            (p.rollout == "vllm-separate") & (p.rollout_gpus % p.rollout_tensor_parallel != 0)
        ),
        "rollout_tensor_parallel must divide rollout_gpus.",
        "Choose a divisor of rollout_gpus.",
    ),
)
