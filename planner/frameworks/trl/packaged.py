"""The configurations of accelerate that TRL 1.16.0 brings: ``trl grpo --accelerate_config zero3``.

Without what moves neither memory nor seconds; a test holds them to ``trl/accelerate_configs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALL: Mapping[str, Any] = {"mixed_precision": "bf16", "num_machines": 1, "num_processes": 8}
FSDP: Mapping[str, Any] = {
    "fsdp_activation_checkpointing": False,
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_cpu_ram_efficient_loading": True,
    "fsdp_offload_params": False,
    "fsdp_state_dict_type": "FULL_STATE_DICT",
}
STAY: Mapping[str, Any] = {"offload_optimizer_device": "none", "offload_param_device": "none"}
PACKAGED: Mapping[str, Mapping[str, Any]] = {
    "single_gpu": {"distributed_type": "NO"},
    "multi_gpu": {"distributed_type": "MULTI_GPU"},
    "fsdp1": {
        "distributed_type": "FSDP",
        "fsdp_config": {
            **FSDP,
            "fsdp_backward_prefetch": "BACKWARD_PRE",
            "fsdp_forward_prefetch": True,
            "fsdp_reshard_after_forward": "FULL_SHARD",
            "fsdp_sync_module_states": True,
            "fsdp_use_orig_params": True,
            "fsdp_version": 1,
        },
    },
    "fsdp2": {
        "distributed_type": "FSDP",
        "fsdp_config": {**FSDP, "fsdp_reshard_after_forward": True, "fsdp_version": 2},
    },
    "zero1": {
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {
            "gradient_accumulation_steps": 1,
            "zero3_init_flag": False,
            "zero_stage": 1,
        },
    },
    "zero2": {
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {**STAY, "zero3_init_flag": False, "zero_stage": 2},
    },
    "zero3": {
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {
            **STAY,
            "zero3_init_flag": True,
            "zero3_save_16bit_model": True,
            "zero_stage": 3,
        },
    },
}
"""By name; to each comes what is in :data:`ALL`."""
