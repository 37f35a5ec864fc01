"""Where each field of a plan stands: in sight, in a folded group, or nowhere and why.

Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.methods import methods


@dataclass(frozen=True, slots=True)
class Group:
    """A folded part of the sidebar."""

    key: str
    title: str
    icon: str
    fields: tuple[str, ...]


MAIN: tuple[str, ...] = (
    "model",
    "method",
    "gpu",
    "gpus",
    "prompt_tokens",
    "response_tokens",
    "responses_per_prompt",
    "finetuning",
)
"""The eight inputs that are always in sight."""

GROUPS: tuple[Group, ...] = (
    Group(
        "batch",
        "Batch",
        ":material/stacks:",
        (
            "prompts_per_step",
            "prompts_per_update",
            "micro_batch_size",
            "logprob_micro_batch_size",
            "max_tokens_per_micro_batch",
            "batch_shape",
            "validation_response_tokens",
        ),
    ),
    Group(
        "precision",
        "Precision and optimizer",
        ":material/decimal_increase:",
        (
            "dtype",
            "master_dtype",
            "base_dtype",
            "gradient_dtype",
            "reduce_dtype",
            "logits_dtype",
            "optimizer",
            "optimizer_step",
            "lora_rank",
            "lora_targets",
            "lora_dropout",
            "autocast",
        ),
    ),
    Group(
        "savers",
        "Memory savers",
        ":material/compress:",
        (
            "gradient_checkpointing",
            "activation_offload",
            "offload",
            "attention",
            "logits",
            "chunk_tokens",
            "chunk_compile",
            "compile",
            "empty_cache",
            "expandable_segments",
        ),
    ),
    Group(
        "roles",
        "Roles",
        ":material/groups:",
        (
            "kl",
            "entropy",
            "reference",
            "critic",
            "critic_model",
            "reward",
            "reward_model",
            "reward_seconds",
            "reward_concurrency",
        ),
    ),
    *(
        Group(method.name, method.title, ":material/tune:", method.own_fields)
        for method in methods().values()
        if method.fields
    ),
    Group(
        "rollout",
        "Rollout engine",
        ":material/bolt:",
        (
            "rollout",
            "temperature",
            "rollout_gpus",
            "rollout_overlap",
            "resampling_factor",
            "rollout_tensor_parallel",
            "gpu_memory_utilization",
            "vllm_sleep_level",
            "max_num_seqs",
            "max_num_batched_tokens",
            "enforce_eager",
            "kv_cache_dtype",
        ),
    ),
    Group(
        "hardware",
        "Hardware and framework",
        ":material/memory:",
        (
            "framework",
            "framework_version",
            "torch_version",
            "sharding",
            "shard_size",
            "reshard_after_forward",
            "gpus_per_node",
            "host_ram_per_node",
        ),
    ),
    Group("money", "Time and money", ":material/payments:", ("steps", "price_per_gpu_hour")),
)
"""The folded groups, top to bottom."""

NOT_SHOWN: Mapping[str, str] = {
    "config": "set by “Other model…”",
    "gpu_bytes": "set by “Other card…”",
    "length_distribution": "set by “Response lengths”, below the response's cap",
    **dict.fromkeys(
        (
            "tensor_parallel",
            "pipeline_parallel",
            "context_parallel",
            "expert_parallel",
            "turns",
            "liger",
        ),
        "has one modelled value so far",
    ),
}
"""Fields without an input of their own, and why."""
