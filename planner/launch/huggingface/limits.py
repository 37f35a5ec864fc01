"""What accelerate 1.15.0 and DeepSpeed cannot do at a plan's value, whoever's trainer they start.

Obstacles are found in the order in which a framework asks for them.
"""

from __future__ import annotations

from planner.launch.huggingface.processes import zero
from planner.launch.obstacles import Obstacles
from planner.values.sharding import sharding_of


def limit_trained_weights(found: Obstacles) -> None:
    """Refuse half-precision adapters beside such weights, and fp16 weights that train."""
    plan = found.plan
    if plan.finetuning == "lora" and plan.dtype != "fp32":
        found.only(
            "master_dtype",
            "fp32",
            why="peft keeps adapters of half-precision weights in fp32.",
            gradient_dtype="fp32",
        )
    elif plan.dtype == "fp16":
        found.only(
            "master_dtype",
            "fp32",
            why="The fp16 loss scaler refuses fp16 gradients.",
            gradient_dtype="fp32",
        )


def limit_gradients(found: Obstacles) -> None:
    """Refuse dtypes in which gradients are neither kept nor reduced."""
    plan = found.plan
    if zero(plan):  # DeepSpeed's file sets both of these
        return
    kept = plan.dtype if plan.master_dtype == "none" else "fp32"
    found.only("gradient_dtype", kept, why="Gradients have the dtype of the trained weights.")
    if sharding_of(plan).fsdp:
        found.only("reduce_dtype", plan.dtype, why="accelerate reduces in the compute dtype.")


def limit_offload(found: Obstacles, whose: str) -> None:
    """Refuse what neither FSDP2 nor DeepSpeed keeps in host RAM; ``whose`` trainer asks for it."""
    by_deepspeed = "DeepSpeed keeps offloaded state in host RAM throughout the step."
    allowed, why = {
        "fsdp2": (
            ("none", "all"),
            "accelerate's FSDP2 keeps everything in host RAM throughout, or nothing.",
        ),
        "zero3": (("none", "optimizer", "all"), by_deepspeed),
        "zero2": (("none", "optimizer"), by_deepspeed),
        "zero1": (("none", "optimizer"), by_deepspeed),
    }.get(found.plan.sharding, (("none",), f"{whose} offloads through FSDP2 or DeepSpeed only."))
    found.only("offload", *allowed, why=why)


def limit_sharding(found: Obstacles) -> None:
    """Refuse what DeepSpeed decides itself, and 8-bit states under FSDP1."""
    plan = found.plan
    if zero(plan) and not plan.reshard_after_forward:
        found.only(
            "reshard_after_forward",
            True,
            why="ZeRO has no reshard_after_forward: its stage, 2 or 3, decides this.",
        )
    if zero(plan) and plan.offload != "none":
        found.only("optimizer", "adamw-fused", why="With offload, DeepSpeed uses its CPU Adam.")
    if sharding_of(plan).fsdp == 1 and plan.optimizer == "adamw-8bit":
        found.refuse(
            "optimizer",
            "8-bit states depend on how FSDP1 flattens the weights.",
            sharding="fsdp2",
        )
