"""What TRL's trainers call a plan's batches, lengths and engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from planner.numeric import ceil_div
from planner.values.framework import Word

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan

WORDS = {
    "responses_per_prompt": Word("num_generations", "Generations"),
    "prompts_per_update": Word("gradient_accumulation_steps", "Prompts per optimizer step"),
    "micro_batch_size": Word("per_device_train_batch_size", "Per-device train batch size"),
    "response_tokens": Word("max_completion_length"),
    "gpu_memory_utilization": Word("vllm_gpu_memory_utilization"),
    "rollout_tensor_parallel": Word("vllm_tensor_parallel_size"),
    "rollout": Word("vllm_mode"),
    "vllm_sleep_level": Word("vllm_enable_sleep_mode"),
    "temperature": Word("temperature"),
    "attention": Word("attn_implementation"),
    "gradient_checkpointing": Word("gradient_checkpointing"),
    "optimizer": Word("optim"),
    "liger": Word("use_liger_kernel"),
    "empty_cache": Word("torch_empty_cache_steps"),
    "finetuning": Word("use_peft"),
    "lora_rank": Word("lora_r"),
    "lora_targets": Word("lora_target_modules"),
    "lora_dropout": Word("lora_dropout"),
    "sharding": Word("distributed_type"),
    "reshard_after_forward": Word("fsdp_reshard_after_forward"),
    "offload": Word("fsdp_offload_params"),
    "compile": Word("dynamo_config"),
    "kl": Word("beta"),
    "entropy": Word("entropy_coef"),
    "steps": Word("max_steps"),
    "save_steps": Word("save_steps"),
    "eval_steps": Word("eval_steps"),
}

BESIDE = {
    "learning rate": Word("learning_rate"),
    "clipping": Word("epsilon_high"),
    "overlong": Word("mask_truncated_completions"),
    "loss form": Word("loss_type"),
    "advantage": Word("scale_rewards"),
    "sampling": Word("top_p"),
    "gradient clipping": Word("max_grad_norm"),
    "weight decay": Word("weight_decay"),
    "epochs": Word("num_iterations"),
}
"""Its options that no field of a plan has, by the subject of :mod:`planner.wording.subjects`."""


def batch_options(plan: Plan) -> Mapping[str, int]:
    """A device's batch, and how many of them an optimizer step adds up."""
    together = plan.micro_batch_size * (plan.gpus - plan.rollout_gpus)
    rounds = ceil_div(plan.prompts_per_update * plan.responses_per_prompt, together)
    options = {
        "per_device_train_batch_size": plan.micro_batch_size,
        "gradient_accumulation_steps": rounds if plan.optimizer_step == "update" else 1,
    }
    sampled = {"num_generations": plan.responses_per_prompt}
    return options | (sampled if plan.responses_per_prompt > 1 else {})


def sequences_at_once(plan: Plan) -> Mapping[str, int]:
    """A colocated engine decodes all that it is given at once (``_init_vllm``'s max_num_seqs)."""
    if plan.rollout != "vllm-colocated":
        return {}
    per_gpu = plan.prompts_per_step * plan.responses_per_prompt // (plan.gpus - plan.rollout_gpus)
    return {"max_num_seqs": per_gpu * plan.rollout_tensor_parallel}
