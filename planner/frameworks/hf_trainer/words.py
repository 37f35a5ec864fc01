"""What TrainingArguments, from_pretrained and peft call a plan's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from planner.numeric import ceil_div
from planner.values.framework import Word

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan

WORDS = {
    "prompts_per_update": Word("gradient_accumulation_steps", "Rows per optimizer step"),
    "micro_batch_size": Word("per_device_train_batch_size", "Per-device train batch size"),
    "attention": Word("attn_implementation"),
    "gradient_checkpointing": Word("activation_checkpointing"),
    "optimizer": Word("optim"),
    "liger": Word("use_liger_kernel"),
    "empty_cache": Word("torch_empty_cache_steps"),
    "lora_rank": Word("r"),
    "lora_targets": Word("target_modules"),
    "lora_dropout": Word("lora_dropout"),
    "sharding": Word("distributed_type"),
    "reshard_after_forward": Word("fsdp_reshard_after_forward"),
    "offload": Word("fsdp_offload_params"),
    "compile": Word("torch_compile"),
    "steps": Word("max_steps"),
    "save_steps": Word("save_steps"),
    "eval_steps": Word("eval_steps"),
}

BESIDE = {
    "learning rate": Word("learning_rate"),
    "gradient clipping": Word("max_grad_norm"),
    "weight decay": Word("weight_decay"),
    "epochs": Word("num_train_epochs"),
}
"""Its options that no field of a plan has, by the subject of :mod:`planner.wording.subjects`."""


def batch_options(plan: Plan) -> Mapping[str, int]:
    """A device's batch, and how many of them an optimizer step adds up."""
    together = plan.micro_batch_size * plan.gpus
    return {
        "per_device_train_batch_size": plan.micro_batch_size,
        "gradient_accumulation_steps": ceil_div(plan.prompts_per_update, together),
    }
