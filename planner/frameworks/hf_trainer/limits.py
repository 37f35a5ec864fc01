"""What transformers' Trainer 5.23.0 and accelerate 1.15.0 cannot do at a plan's value.

Read in their wheels (2026-11).
"""

from __future__ import annotations

from planner.frameworks.hf_trainer import FRAMEWORK
from planner.launch.launch import Obstacle
from planner.launch.obstacles import Obstacles
from planner.plan import Plan
from planner.plan.loss import foreign
from planner.plan.trainers import trainer_of
from planner.values.sharding import sharding_of


def obstacles(plan: Plan) -> tuple[Obstacle, ...]:
    """Fields of the plan that stand in the way of a program around Trainer."""
    found = Obstacles(plan)
    if trainer_of(FRAMEWORK.name, plan.method).export is None:
        return found.without_exporter(FRAMEWORK)
    found.only("eval_steps", 0, why="The program does not validate.")
    _step(found)
    return tuple(found.found)


def step_obstacles(plan: Plan) -> tuple[Obstacle, ...]:
    """Of these, what stands in the way of the trainer's own step."""
    found = Obstacles(plan)
    _step(found)
    return tuple(found.found)


def _step(found: Obstacles) -> None:
    plan = found.plan
    # Of a plan of another framework, too.
    found.only("batch_shape", "padded", "full", why="Trainer's collators pad rows.")
    found.only("max_tokens_per_micro_batch", 0, why="Trainer batches by rows, never by tokens.")
    found.only("optimizer_step", "update", "micro-batch", why="Trainer steps after the backward.")
    if plan.finetuning == "qlora":
        found.refuse("finetuning", "The program has no 4-bit weights.", finetuning="lora")
    if named := foreign(plan, FRAMEWORK):
        found.only("logits", "full", why=f"The plan's loss is {named}.")
    found.only(
        "empty_cache", "never", "every-step", why="Trainer frees cached memory each step, or never."
    )
    _precision(found)
    _sharding(found)


def _precision(found: Obstacles) -> None:
    plan, sharding = found.plan, sharding_of(found.plan)
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
    if sharding.zero:  # DeepSpeed's file says both of these
        return
    kept = plan.dtype if plan.master_dtype == "none" else "fp32"
    found.only("gradient_dtype", kept, why="Gradients have the dtype of the trained weights.")
    if sharding.fsdp:
        found.only("reduce_dtype", plan.dtype, why="accelerate reduces in the compute dtype.")


def _sharding(found: Obstacles) -> None:
    plan, sharding = found.plan, sharding_of(found.plan)
    by_deepspeed = "DeepSpeed keeps offloaded state in host RAM throughout the step."
    allowed, why = {
        "fsdp2": (
            ("none", "all"),
            "accelerate's FSDP2 keeps everything in host RAM throughout, or nothing.",
        ),
        "zero3": (("none", "optimizer", "all"), by_deepspeed),
        "zero2": (("none", "optimizer"), by_deepspeed),
        "zero1": (("none", "optimizer"), by_deepspeed),
    }.get(plan.sharding, (("none",), "Trainer offloads through FSDP2 or DeepSpeed only."))
    found.only("offload", *allowed, why=why)
    if plan.shard_size not in (0, plan.gpus) and sharding.fsdp != 2:
        found.only(
            "shard_size", 0, why="Only FSDP2 shards over fewer than all GPUs through accelerate."
        )
    if sharding.zero and not plan.reshard_after_forward:
        found.only(
            "reshard_after_forward",
            True,
            why="ZeRO has no reshard_after_forward: its stage, 2 or 3, decides this.",
        )
    if sharding.zero and plan.offload != "none":
        found.only(
            "optimizer", "adamw-fused", why="With offload, DeepSpeed uses its CPU Adam."
        )
    if sharding.fsdp == 1 and plan.optimizer == "adamw-8bit":
        found.refuse(
            "optimizer",
            "8-bit states depend on how FSDP1 flattens the weights.",
            sharding="fsdp2",
        )
