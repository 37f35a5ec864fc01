"""What verl 0.9.1 cannot do at a plan's value, read from its wheel (2026-11-20).

Each reason names what verl does instead. The last group are checks that verl's own
validation lacks: it accepts them and fails when the engine starts.
"""

from __future__ import annotations

from typing import Any

from planner.launch.launch import Obstacle
from planner.launch.obstacles import Obstacles

ADAPTER_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Largest ranks a vLLM engine can be built for (vllm.config.lora); a rank is rounded up."""


def limits(plan: Any) -> tuple[Obstacle, ...]:
    """Fields of the plan that stand in the way of a verl script."""
    found = Obstacles(plan)
    if plan.method not in ("grpo", "ppo"):
        _method(found)
        return tuple(found.found)
    _training(found)
    _roles(found)
    _rollout(found)
    _unchecked_by_verl(found)
    return tuple(found.found)


def _method(found: Obstacles) -> None:
    reasons = {
        "intuitor": "verl has no Intuitor estimator; its authors' fork is another package.",
        "sft": "verl's SFT trainer is another program with settings of its own.",
        "dpo": "verl has no DPO trainer.",
        "grade": "verl has no trainer that generates in the graph.",
    }
    why = reasons.get(found.plan.method, "verl has no such trainer here.")
    fix = "Export sft to TRL." if found.plan.method == "sft" else "Choose grpo or ppo for verl."
    found.refuse("method", why, fix)


def _training(found: Obstacles) -> None:
    plan = found.plan
    found.only("sharding", "fsdp2", "fsdp1", why="verl trains with FSDP here, on one GPU too.")
    found.only(
        "gradient_checkpointing",
        "full",
        "none",
        why="verl checkpoints every layer or none.",
    )
    found.only("compile", False, why="verl compiles its entropy function, never the layers.")
    if plan.offload == "optimizer":
        found.refuse(
            "offload",
            "verl keeps the optimizer alone in host RAM only between its phases.",
            "Set offload to optimizer-between-phases.",
            offload="optimizer-between-phases",
        )
    elif plan.offload == "parameters":
        found.refuse(
            "offload",
            "verl keeps weights alone in host RAM only between its phases.",
            "Set offload to parameters-between-phases.",
            offload="parameters-between-phases",
        )
    elif plan.offload == "all" and plan.sharding == "fsdp1":
        found.refuse(
            "offload",
            "verl offloads throughout with FSDP2 only.",
            "Set sharding to fsdp2.",
            sharding="fsdp2",
        )
    if plan.finetuning == "lora" and plan.master_dtype == "fp32":
        found.refuse(
            "master_dtype",
            "verl keeps adapters in the dtype of the frozen weights.",
            "Set master_dtype to none and gradient_dtype to dtype's value.",
            master_dtype="none",
            gradient_dtype=plan.dtype,
        )
    elif plan.gradient_dtype != (plan.dtype if plan.master_dtype == "none" else "fp32"):
        gradient = plan.dtype if plan.master_dtype == "none" else "fp32"
        found.only("gradient_dtype", gradient, why="FSDP keeps gradients in the weights' dtype.")
    found.only("finetuning", "full", "lora", why="verl's FSDP trainer loads no 4-bit weights.")
    if plan.optimizer == "adamw-8bit" and plan.sharding == "fsdp1":
        # torchao's 8-bit states are DTensors; bitsandbytes' differ per flat shard.
        found.refuse(
            "optimizer",
            "The 8-bit optimizer used here (torchao) works on FSDP2's tensors.",
            "Set sharding to fsdp2.",
            sharding="fsdp2",
        )
    found.only("batch_shape", "packed", "padded", "full", why="verl packs rows or pads them.")
    if plan.logits == "response":
        found.refuse(
            "logits",
            "verl computes logits of prompts too, or none at all (fused kernels).",
            "Set logits to full, chunked or fused.",
            logits="fused",
        )
    elif plan.logits == "full":
        found.only(
            "logits_dtype",
            "fp32" if plan.dtype == "fp32" else "bf16",
            why="verl's softmax runs in the dtype the model returns, without an fp32 copy.",
        )
    elif plan.logits == "chunked":
        found.only("logits_dtype", "fp32", why="verl's chunks of 512 tokens are in fp32.")
    found.only(
        "empty_cache", "between-phases", why="verl empties the cache around each weight sync."
    )


def _roles(found: Obstacles) -> None:
    plan = found.plan
    if plan.kl == "none":
        found.only("reference", "none", why="Without a KL term verl loads no reference.")
    elif plan.finetuning == "lora":
        found.only(
            "reference", "adapter-disabled", why="With LoRA verl's reference is the base model."
        )
    else:
        found.only(
            "reference",
            "offloaded",
            why="verl keeps the reference's shards in host RAM, whatever is set.",
        )
    if plan.method == "ppo":
        found.only("critic", "separate", why="verl's critic is a model of its own.")
    else:
        found.only("critic", "none", why="Group advantages need no critic.")
    found.only(
        "reward",
        "rule",
        "remote",
        why="verl serves a reward model from a second engine, whose memory no field plans.",
    )


def _rollout(found: Obstacles) -> None:
    plan = found.plan
    found.only(
        "rollout",
        "vllm-colocated",
        why="verl generates with an engine; on GPUs of its own it trains asynchronously.",
        rollout_gpus=0,
        rollout_tensor_parallel=1,
    )
    if plan.rollout == "vllm-colocated":
        found.only("rollout_gpus", 0, why="A colocated engine has no GPUs of its own.")
    level = 1 if plan.finetuning == "lora" else 2
    found.only(
        "vllm_sleep_level",
        level,
        why="verl chooses 2 for full fine-tuning and 1 for adapters.",
    )
    found.only(
        "validation_response_tokens",
        plan.response_tokens,
        why="verl validates at the length it trains at.",
    )
    if plan.finetuning == "lora" and plan.lora_rank > ADAPTER_RANKS[-1]:
        found.refuse(
            "lora_rank",
            f"vLLM serves adapters up to rank {ADAPTER_RANKS[-1]}.",
            f"Set lora_rank to {ADAPTER_RANKS[-1]} or less.",
            lora_rank=ADAPTER_RANKS[-1],
        )


def _unchecked_by_verl(found: Obstacles) -> None:
    plan = found.plan
    per_node = min(plan.gpus, plan.gpus_per_node)
    if plan.gpus % plan.rollout_tensor_parallel or per_node % plan.rollout_tensor_parallel:
        found.refuse(
            "rollout_tensor_parallel",
            f"An engine's {plan.rollout_tensor_parallel} GPUs do not divide a node's {per_node}.",
            "Set rollout_tensor_parallel to a divisor.",
            rollout_tensor_parallel=1,
        )
    if not 0 < plan.gpu_memory_utilization < 1:
        found.refuse(
            "gpu_memory_utilization",
            "vLLM takes a share of the card between 0 and 1.",
            "Set gpu_memory_utilization to 0.5.",
            gpu_memory_utilization=0.5,
        )
    row_tokens = plan.prompt_tokens + plan.response_tokens
    if 0 < plan.max_tokens_per_micro_batch < row_tokens:
        found.refuse(
            "max_tokens_per_micro_batch",
            f"The budget is smaller than one row of {row_tokens} tokens.",
            f"Set max_tokens_per_micro_batch to {row_tokens} or more, or to 0.",
            max_tokens_per_micro_batch=row_tokens,
        )
    if plan.prompts_per_step % plan.prompts_per_update:
        found.refuse(
            "prompts_per_update",
            "A step is a whole number of updates.",
            "Set prompts_per_update to a divisor of prompts_per_step.",
            prompts_per_update=plan.prompts_per_step,
        )
    sequences = plan.prompts_per_update * plan.responses_per_prompt
    if sequences % plan.gpus:
        found.refuse(
            "prompts_per_update",
            f"An update's {sequences} sequences do not divide over {plan.gpus} GPUs.",
            "Change prompts_per_update, responses_per_prompt or gpus.",
        )
    elif not plan.max_tokens_per_micro_batch and sequences // plan.gpus % plan.micro_batch_size:
        found.refuse(
            "micro_batch_size",
            f"It does not divide the {sequences // plan.gpus} sequences a GPU has per update.",
            "Set micro_batch_size to a divisor.",
            micro_batch_size=1,
        )
