"""``accelerate.yaml`` and ``deepspeed.json``: how TRL's processes share the training state.

Keys as in the configurations TRL 1.16.0 ships and in accelerate 1.15.0's launcher.
"""

from __future__ import annotations

import json

from planner.frameworks.trl.limits import training_gpus, zero
from planner.launch.launch import LaunchFile
from planner.launch.script import given, yaml_text
from planner.plan import Plan
from planner.values.sharding import sharding_of

ACCELERATE = "accelerate.yaml"
DEEPSPEED = "deepspeed.json"

COMPILED = {"dynamo_backend": "INDUCTOR", "dynamo_use_regional_compilation": True}
ADAMW = {
    "type": "AdamW",
    "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
}


def nodes(plan: Plan) -> int:
    """Machines the trainer runs on."""
    return max(1, training_gpus(plan) // int(plan.gpus_per_node))


def mixed_precision(plan: Plan) -> str:
    """Compute dtype when it is not that of the weights, else ``no``."""
    if plan.dtype == "fp32":
        return "no"
    if zero(plan) or plan.master_dtype == "fp32" or plan.finetuning == "qlora":
        return str(plan.dtype)
    return "no"


def accelerate_files(plan: Plan) -> tuple[LaunchFile, ...]:
    """The launcher's configuration, and DeepSpeed's where that shards."""
    gpus = training_gpus(plan)
    grouped = sharding_of(plan).fsdp == 2 and plan.shard_size not in (0, gpus)
    values = given(
        {
            "compute_environment": "LOCAL_MACHINE",
            "distributed_type": _distributed_type(plan),
            # DeepSpeed's file decides the dtype; accelerate refuses to be told it twice.
            "mixed_precision": None if zero(plan) else mixed_precision(plan),
            "num_machines": nodes(plan),
            "num_processes": gpus,
            "machine_rank": 0,
            "main_training_function": "main",
            "rdzv_backend": "static",
            "same_network": True,
            "use_cpu": False,
            "fsdp_config": _fsdp(plan) if sharding_of(plan).fsdp > 0 else None,
            "parallelism_config": _groups(plan) if grouped else None,
            "dynamo_config": COMPILED if plan.compile else None,
            "deepspeed_config": {
                "deepspeed_config_file": DEEPSPEED,
                "zero3_init_flag": sharding_of(plan).zero == 3,
            }
            if zero(plan)
            else None,
        }
    )
    launcher = LaunchFile(name=ACCELERATE, text=yaml_text(values))
    if not zero(plan):
        return (launcher,)
    text = json.dumps(_deepspeed(plan), indent=2) + "\n"
    return (launcher, LaunchFile(name=DEEPSPEED, text=text))


def _groups(plan: Plan) -> dict[str, object]:
    return {
        "parallelism_config_dp_replicate_size": training_gpus(plan) // plan.shard_size,
        "parallelism_config_dp_shard_size": plan.shard_size,
    }


def _distributed_type(plan: Plan) -> str:
    if zero(plan):
        return "DEEPSPEED"
    return {"none": "NO", "ddp": "MULTI_GPU", "fsdp1": "FSDP", "fsdp2": "FSDP"}[plan.sharding]


def _fsdp(plan: Plan) -> dict[str, object]:
    version = sharding_of(plan).fsdp
    strategy = "FULL_SHARD" if plan.reshard_after_forward else "SHARD_GRAD_OP"
    first = version == 1 or None
    return given(
        {
            "fsdp_version": version,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_cpu_ram_efficient_loading": True,
            "fsdp_offload_params": plan.offload == "all",
            # Of FSDP1 accelerate asks its older word alone, whose default is FULL_SHARD.
            "fsdp_sharding_strategy": strategy if first else None,
            "fsdp_reshard_after_forward": strategy if first else plan.reshard_after_forward,
            "fsdp_state_dict_type": "FULL_STATE_DICT",
            "fsdp_activation_checkpointing": activations_by_accelerate(plan),
            "fsdp_sync_module_states": first,
            "fsdp_use_orig_params": first,
            "fsdp_activation_checkpointing_offload": activations_by_accelerate(plan) or None,
        }
    )


def activations_by_accelerate(plan: Plan) -> bool:
    """Whether accelerate checkpoints the layers, since only it can offload under FSDP2."""
    return bool(plan.activation_offload) and sharding_of(plan).fsdp == 2


def activations_by_trainer(plan: Plan) -> bool:
    """Whether TRL's trainer offloads what its whole step saves."""
    return bool(plan.activation_offload) and not activations_by_accelerate(plan)


def _deepspeed(plan: Plan) -> dict[str, object]:
    stage = sharding_of(plan).zero
    in_host_ram = {"device": "cpu", "pin_memory": True}
    offloads = plan.offload in ("optimizer", "all")
    return given(
        {
            "train_batch_size": "auto",
            "train_micro_batch_size_per_gpu": "auto",
            "gradient_accumulation_steps": "auto",
            "gradient_clipping": "auto",
            "bf16": {"enabled": plan.dtype == "bf16"},
            "fp16": {"enabled": plan.dtype == "fp16"},
            "communication_data_type": plan.reduce_dtype,
            "data_types": {"grad_accum_dtype": plan.gradient_dtype},
            "zero_allow_untested_optimizer": True,
            # Without its own optimizer DeepSpeed refuses to offload.
            "optimizer": ADAMW if offloads else None,
            "zero_optimization": given(
                {
                    "stage": stage,
                    "offload_optimizer": in_host_ram if offloads else None,
                    "offload_param": in_host_ram if plan.offload == "all" else None,
                    "stage3_gather_16bit_weights_on_model_save": stage == 3 or None,
                }
            ),
        }
    )
