"""What TRL 1.16.0 cannot do at a plan's value, read from its wheel (2026-11-20).

Also from accelerate 1.15.0, which does TRL's sharding and mixed precision.
"""

from __future__ import annotations

from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.script import Script
from planner.frameworks.trl.words import sequences_at_once
from planner.launch.huggingface.limits import (
    limit_gradients,
    limit_offload,
    limit_sharding,
    limit_trained_weights,
)
from planner.launch.huggingface.processes import training_gpus, zero
from planner.launch.launch import Obstacle
from planner.launch.obstacles import Obstacles
from planner.plan import Plan
from planner.plan.loss import foreign
from planner.plan.references import frozen_adapter
from planner.plan.trainers import exported_by, trainer_of
from planner.values.sharding import sharding_of

ENGINE_BATCHED_TOKENS = 4096
"""``max_num_batched_tokens`` of the colocated engine, fixed in trl/generation."""


def obstacles(plan: Plan) -> tuple[Obstacle, ...]:
    """Fields of the plan that stand in the way of a TRL script."""
    found = Obstacles(plan)
    script = trainer_of(FRAMEWORK.name, plan.method).export
    if script is None:
        return found.without_exporter(FRAMEWORK)
    _step(found, script)
    if not script.samples and plan.reference != "none":
        _references_of_pairs(found)
    elif frozen_adapter(plan):
        # trl/trainer/grpo_trainer.py of 1.16.0, lines 478 to 506: of a PeftModel that it is given.
        found.only(
            "reference",
            "adapter-disabled",
            why="TRL's script adds new adapters to the base model, so the reference is the base "
            "model.",
        )
    if script.samples:
        _engine(found)
    if script.program:
        _of_a_program(found)
        for field, value in trainer_of(FRAMEWORK.name, plan.method).defaults({}).items():
            found.only(
                field,
                value,
                why="TRL's fused head computes self-certainty together with the old log-probs.",
            )
    return tuple(found.found)


def _references_of_pairs(found: Obstacles) -> None:
    """What trl/scripts/dpo.py gives its trainer: one model, and new adapters where they train."""
    live = "copy" if found.plan.finetuning == "full" else "adapter-disabled"
    found.only(
        "reference",
        *(live, "cached-logprobs"),
        why="TRL's script takes the model it begins with as the reference, or scores the data set "
        "with it before training.",
    )


def step_obstacles(plan: Plan) -> tuple[Obstacle, ...]:
    """Of these, what stands in the way of the trainer's own step, whatever the engine is told.

    Adapters are of peft's and TRL's dtypes whether or not there is an export.
    """
    found = Obstacles(plan)
    script = trainer_of(FRAMEWORK.name, plan.method).export
    if script is not None:
        _step(found, script)
    else:
        _precision(found)
    return tuple(found.found)


def _step(found: Obstacles, script: Script) -> None:
    _batch(found, script)
    _precision(found)
    _memory(found, script)
    if script.samples:
        _roles(found, script)


def weighted_obstacles(plan: Plan) -> tuple[Obstacle, ...]:
    """Further fields in the way where prompts are to be drawn by density weights."""
    found = Obstacles(plan)
    script = trainer_of(FRAMEWORK.name, plan.method).export
    if script is not None and not script.weighted:
        able = [name for name in exported_by(FRAMEWORK.name) if _weighted(name)]
        found.refuse(
            "method",
            f"Headroom has no {FRAMEWORK.label} program that samples this method's prompts by "
            "density weights.",
            f"Choose {' or '.join(able)}, or sample prompts uniformly.",
        )
    _of_a_program(found)
    return tuple(found.found)


def _weighted(method: str) -> bool:
    return bool(trainer_of(FRAMEWORK.name, method).export.weighted)


def _of_a_program(found: Obstacles) -> None:
    """A program of our own around TRL is started on one node, and has no rows to validate on."""
    plan = found.plan
    found.only("eval_steps", 0, why="The program does not validate.")
    if plan.gpus > plan.gpus_per_node:
        found.refuse(
            "gpus",
            "The program is written for one node.",
            f"Set gpus to {plan.gpus_per_node}, the number of GPUs in one node.",
            gpus=plan.gpus_per_node,
        )


def _batch(found: Obstacles, script: Script) -> None:
    plan = found.plan
    found.only("max_tokens_per_micro_batch", 0, why="TRL batches by rows, never by tokens.")
    found.only(
        "validation_response_tokens",
        plan.response_tokens,
        why="TRL's validation uses the response length of training.",
    )
    if not script.packs:
        found.only("batch_shape", "padded", "full", why="TRL pads pairs, never packs them.")
    if script.samples:
        found.only("batch_shape", "padded", "full", why="TRL pads sampled rows, never packs them.")
        found.only(
            "logprob_micro_batch_size",
            plan.micro_batch_size,
            why="TRL has one micro-batch size for all forwards.",
        )


def _precision(found: Obstacles) -> None:
    plan = found.plan
    if plan.finetuning == "qlora":
        if plan.dtype == "fp16":
            # torch 2.13's AmpKernels.cu (pytorch issue 127176, trl issue 4901): the first clipping
            # of gradients ends in NotImplementedError, whatever dtype the plan's adapters have.
            found.refuse(
                "dtype",
                "TRL casts adapters of 4-bit weights to bf16, and on a GPU the fp16 loss scaler "
                "cannot unscale bf16 gradients.",
                "Set dtype to bf16, or finetuning to lora.",
                dtype="bf16",
                gradient_dtype="bf16",
                reduce_dtype="bf16",
            )
        found.only(
            "master_dtype",
            "none",
            why="TRL keeps adapters of 4-bit weights in bf16.",
            gradient_dtype=plan.dtype,
        )
    else:
        limit_trained_weights(found)
    limit_gradients(found)


def _memory(found: Obstacles, script: Script) -> None:
    plan = found.plan
    if named := foreign(plan, FRAMEWORK):
        found.only("logits", "fused", why=f"The plan's loss is {named}.")
    limit_offload(found, FRAMEWORK.label)
    if plan.activation_offload and script.samples and sharding_of(plan).fsdp != 2:
        found.only(
            "activation_offload",
            False,
            why="TRL's trainers that sample responses can offload activations only through "
            "accelerate's FSDP2.",
        )
    grouped = plan.shard_size not in (0, training_gpus(plan))
    if grouped and (zero(plan) or sharding_of(plan).fsdp == 1):
        found.only(
            "shard_size",
            0,
            why="The script can shard over fewer than all training GPUs only with FSDP2.",
        )
    limit_sharding(found)
    if plan.rollout == "vllm-colocated" and plan.vllm_sleep_level > 0:
        found.only(
            "empty_cache",
            "between-phases",
            "every-step",
            why="TRL frees PyTorch's cached memory before it wakes the engine.",
        )
        found.only(
            "expandable_segments",
            False,
            why="vLLM's sleep mode refuses to share a process with expandable segments.",
        )
    else:
        found.only(
            "empty_cache",
            "never",
            "every-step",
            why="TRL frees PyTorch's cached memory each step, or before it wakes an engine.",
        )


def _roles(found: Obstacles, script: Script) -> None:
    plan = found.plan
    found.only(
        "kl",
        *script.kl,
        why="TRL's trainer for this method cannot apply the KL term where the plan does.",
    )
    found.only("entropy", *(False, script.entropy), why="TRL's trainer has no entropy bonus.")
    if plan.config and plan.reward == "model" and script.rewarded and not plan.reward_model:
        found.refuse(
            "reward_model",
            "The plan's reward model is of the policy's own config.json, and no Hub id names it.",
            "Set reward_model to a Hub id.",
        )
    _adapters_off(found)
    if plan.kl == "none":
        found.only("reference", "none", why="Without a KL term TRL loads no reference.")
    elif plan.finetuning != "full":
        found.only(
            "reference",
            "adapter-disabled",
            "frozen-adapter",
            why="With adapters, TRL's reference is the base model, or a frozen copy of the "
            "adapters that the policy started with.",
        )
    else:
        where = "offloaded" if plan.offload == "all" else "copy"
        found.only(
            "reference", where, why="TRL keeps the reference in the same memory as the policy."
        )


def _adapters_off(found: Obstacles) -> None:
    """A first forward without adapters shows FSDP2 a group whose trained weights are none.

    It then gives fp32 adapters gradients in the frozen weights' dtype, which torch 2.13 refuses
    (tried on a CPU). Where old log-probs are made, theirs is the first forward.
    """
    plan = found.plan
    first = trainer_of(FRAMEWORK.name, plan.method).own_old_log_probs(plan)
    half, fsdp2 = plan.dtype != "fp32", sharding_of(plan).fsdp == 2
    if first and plan.kl != "none" and plan.finetuning == "lora" and half and fsdp2:
        found.refuse(
            "sharding",
            "TRL runs a step's first forward with adapters disabled, and FSDP2 then refuses the "
            "adapters' gradients.",
            sharding="ddp",
        )


def _engine(found: Obstacles) -> None:
    plan = found.plan
    if plan.rollout.startswith("vllm"):
        found.only(
            "rollout_quantization", "none", why="TRL sends weights to an engine unquantized."
        )
        found.only("sync_bucket_bytes", 0, why="TRL sends weights to an engine without buckets.")
    if plan.rollout == "vllm-colocated":
        _colocated(found)
    elif plan.rollout == "vllm-separate":
        _separate(found)


def _colocated(found: Obstacles) -> None:
    plan = found.plan
    found.only("vllm_sleep_level", 2, 0, why="TRL's engine sleeps at level 2, or not at all.")
    found.only(
        "max_num_batched_tokens",
        ENGINE_BATCHED_TOKENS,
        why="TRL fixes max_num_batched_tokens for a colocated engine.",
    )
    found.only("enforce_eager", False, why="TRL's colocated engine always uses CUDA graphs.")
    found.only(
        "kv_cache_dtype",
        "auto",
        why="TRL's colocated engine stores its KV cache in the model's dtype.",
    )
    found.only("async_scheduling", True, why="TRL's colocated engine schedules asynchronously.")
    found.only(
        "rollout_expert_parallel", False, why="TRL's colocated engine slices every expert."
    )
    found.engine_within_node()
    together = sequences_at_once(plan)["max_num_seqs"]
    if plan.max_num_seqs < together:
        found.refuse(
            "max_num_seqs",
            f"TRL decodes all {together} sequences of an engine at once.",
            f"Set max_num_seqs to {together} or more.",
            max_num_seqs=together,
        )


def _separate(found: Obstacles) -> None:
    plan = found.plan
    if plan.rollout_tensor_parallel != plan.rollout_gpus:
        found.refuse(
            "rollout_tensor_parallel",
            "TRL's server is one engine over all rollout GPUs.",
            f"Set rollout_tensor_parallel to {plan.rollout_gpus} if the model's heads divide by "
            "it, or change rollout_gpus.",
        )
    gpus = training_gpus(plan)
    if plan.rollout_gpus > plan.gpus_per_node or (
        plan.gpus > plan.gpus_per_node and gpus % min(gpus, plan.gpus_per_node)
    ):
        found.refuse(
            "rollout_gpus",
            "The engine has to fit on one node, and the trainer on one node or on whole nodes.",
            "Set rollout_gpus to gpus_per_node or less, leaving whole nodes to train.",
        )
