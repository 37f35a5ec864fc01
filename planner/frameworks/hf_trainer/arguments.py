"""What a plan says to TrainingArguments, from_pretrained and peft, by their own names.

Read in transformers 5.23.0, training_args.py, and peft 0.21.2, tuners/lora/config.py.
"""

from __future__ import annotations

from planner.frameworks.trl.accelerate import activations_by_accelerate, mixed_precision
from planner.launch.script import given
from planner.launch.words import ATTENTION, lora_targets
from planner.numeric import ceil_div
from planner.plan import Plan
from planner.values.dtypes import TORCH_NAMES
from planner.values.sharding import sharding_of

OPTIMIZERS = {
    "adamw-fused": "adamw_torch_fused",
    "adamw-foreach": "adamw_torch",
    "adamw-8bit": "adamw_bnb_8bit",
    "paged-adamw-8bit": "paged_adamw_8bit",
    "sgd": "sgd",
}
SHARDED_8BIT = "adamw_torch_8bit"
"""torchao's, whose states can be DTensors; bitsandbytes' cannot (bitsandbytes#1633)."""


def optimizer(plan: Plan) -> str:
    """``optim``."""
    if plan.optimizer == "adamw-8bit" and sharding_of(plan).fsdp == 2:
        return SHARDED_8BIT
    return OPTIMIZERS[plan.optimizer]


def training(plan: Plan) -> dict[str, object]:
    """Fields of TrainingArguments; all others keep their defaults."""
    precision, recomputes = mixed_precision(plan), plan.gradient_checkpointing == "full"
    by_trainer = recomputes and not activations_by_accelerate(plan)
    together = plan.micro_batch_size * plan.gpus
    rounds = int(ceil_div(plan.prompts_per_update * plan.responses_per_prompt, together))
    accumulates = plan.optimizer_step == "update"
    own_steps = plan.prompts_per_step // plan.prompts_per_update * (1 if accumulates else rounds)
    values = {
        "per_device_train_batch_size": plan.micro_batch_size,
        "gradient_accumulation_steps": rounds if accumulates else 1,
        "max_steps": plan.steps * own_steps,
        # Its own default saves every 500 of its steps.
        "save_strategy": "steps" if plan.save_steps else "no",
        "save_steps": plan.save_steps * own_steps or None,
        "bf16": precision == "bf16",
        "fp16": precision == "fp16",
        "activation_checkpointing": by_trainer,
        "activation_checkpointing_kwargs": _checkpointing(plan) if by_trainer else None,
        "optim": optimizer(plan),
        "use_liger_kernel": plan.liger,
        # Its own default is Liger's fused loss, with which there are no logits.
        "liger_kernel_config": _layers_alone() if plan.liger else None,
        "torch_empty_cache_steps": 1 if plan.empty_cache == "every-step" else None,
        "report_to": "none",
    }
    return given(values)


def _checkpointing(plan: Plan) -> dict[str, object]:
    """Also what is None by default: ``offload`` is the Trainer's, ``use_reentrant`` torch's."""
    return {"use_reentrant": False, "offload": bool(plan.activation_offload)}


def _layers_alone() -> dict[str, object]:
    return {"cross_entropy": False, "fused_linear_cross_entropy": False}


def loading(plan: Plan) -> dict[str, object]:
    """Arguments of from_pretrained.

    FSDP widens what it trains by itself under mixed precision, DeepSpeed keeps fp32 copies beside
    half-precision weights. Only a whole model on each GPU is loaded in fp32 for an fp32 master.
    """
    replicated, full = sharding_of(plan).replicated, plan.finetuning == "full"
    wide = plan.master_dtype == "fp32" and replicated if full else plan.base_dtype == "fp32"
    return {
        "dtype": "float32" if wide else TORCH_NAMES[plan.dtype],
        "attn_implementation": ATTENTION[plan.attention],
    }


def adapters(plan: Plan) -> dict[str, object]:
    """Arguments of peft's LoraConfig; none where all weights train."""
    if plan.finetuning == "full":
        return {}
    modules, tensors = lora_targets(plan)
    return given(
        {
            "r": plan.lora_rank,
            "target_modules": modules[0] if len(modules) == 1 else list(modules),
            "target_parameters": list(tensors) or None,
            "lora_dropout": plan.lora_dropout,
            "task_type": "CAUSAL_LM",
        }
    )
