"""What transformers' Trainer 5.23.0 and accelerate 1.15.0 cannot do at a plan's value.

Read in their wheels (2026-11).
"""

from __future__ import annotations

from planner.frameworks.hf_trainer import FRAMEWORK
from planner.launch.huggingface.limits import (
    limit_gradients,
    limit_offload,
    limit_sharding,
    limit_trained_weights,
)
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
    found.only("logits_dtype", "fp32", why="The model's loss upcasts all logits to fp32.")
    found.only(
        "empty_cache", "never", "every-step", why="Trainer frees cached memory each step, or never."
    )
    limit_trained_weights(found)
    limit_gradients(found)
    limit_offload(found, "Trainer")
    if plan.shard_size not in (0, plan.gpus) and sharding_of(plan).fsdp != 2:
        found.only(
            "shard_size", 0, why="Only FSDP2 shards over fewer than all GPUs through accelerate."
        )
    limit_sharding(found)
