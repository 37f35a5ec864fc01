"""What cannot be offloaded, and of the optimizer."""

from __future__ import annotations

from planner.plan.rules.asked import half, training_gpus
from planner.rule import NOT_YET, Rule
from planner.values.sharding import sharding_of

RULES: tuple[Rule, ...] = (
    Rule(
        "offload",
        lambda p: p.offload == "parameters",
        "Weights cannot stay in host RAM without the optimizer that updates them.",
        "Set offload to all or to parameters-between-phases.",
    ),
    Rule(
        "offload",
        lambda p: p.offload == "all" and not sharding_of(p).streams,
        "Weights can stay in host RAM for the whole step only under fsdp2 or zero3.",
        "Set sharding to fsdp2, or offload to all-between-phases.",
    ),
    Rule(
        "offload",
        lambda p: p.offload == "optimizer" and not sharding_of(p).zero,
        "Only ZeRO can keep just the optimizer in host RAM for the whole step.",
        "Set sharding to zero2, or offload to optimizer-between-phases.",
    ),
    Rule(
        "optimizer",
        lambda p: p.optimizer == "paged-adamw-8bit" and not sharding_of(p).replicated,
        "bitsandbytes pages whole tensors, not shards.",
        "Set optimizer to adamw-8bit, or sharding to none or ddp.",
    ),
    Rule(
        "optimizer",
        lambda p: p.optimizer == "paged-adamw-8bit" and p.offload != "none",
        "A paged optimizer moves to host RAM by itself when GPU memory is short.",
        "Set offload to none, or optimizer to adamw-8bit.",
    ),
    Rule(
        "optimizer_step",
        lambda p: (
            p.optimizer_step == "in-backward"
            and not (sharding_of(p).alone or sharding_of(p).fsdp == 2)
        ),
        f"optimizer_step in-backward with gradients that are reduced in buckets {NOT_YET}",
        "Set sharding to none on one GPU, or to fsdp2.",
    ),
    Rule(
        "optimizer_step",
        lambda p: p.optimizer_step == "in-backward" and p.optimizer == "adamw-foreach",
        "An optimizer in the backward updates one weight at a time.",
        "Set optimizer to adamw-fused.",
    ),
    Rule(
        "optimizer_step",
        lambda p: p.optimizer_step == "in-backward" and p.offload == "all",
        f"optimizer_step in-backward on the CPU {NOT_YET}",
        "Set offload to none.",
    ),
    Rule(
        "optimizer_step",
        lambda p: (
            (p.optimizer_step == "in-backward")
            & (p.shard_size != 0)
            & (p.shard_size != training_gpus(p))
        ),
        f"optimizer_step in-backward with several copies of the shards {NOT_YET}",
        "Set shard_size to 0.",
    ),
    Rule(
        "activation_offload",
        lambda p: p.activation_offload and p.gradient_checkpointing != "full",
        "Only checkpointed activations are offloaded.",
        "Set gradient_checkpointing to full.",
    ),
    Rule(
        "master_dtype",
        lambda p: sharding_of(p).zero > 0 and half(p) and p.master_dtype == "none",
        "DeepSpeed keeps an fp32 copy of half-precision weights.",
        "Set master_dtype to fp32, or sharding to fsdp2.",
    ),
)
