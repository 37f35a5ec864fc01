"""Where each field of a plan stands: in sight, in a folded group, or nowhere and why.

Imports no Streamlit.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.plan.methods import methods


@dataclass(frozen=True, slots=True)
class Group:
    """A folded part of the sidebar."""

    key: str
    title: str
    icon: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """What people think of at once: inputs that are always in sight, and folded groups below."""

    title: str
    icon: str
    inputs: tuple[tuple[str, ...], ...] = ()
    """Rows of inputs."""
    groups: tuple[Group, ...] = ()


PRECISION = Group(
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
)
ROLES = Group(
    "roles",
    "Reference, critic, reward",
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
)
OWN = tuple(
    Group(method.name, method.title, ":material/tune:", method.own_fields)
    for method in methods().values()
    if method.fields
)
HARDWARE = Group(
    "hardware",
    "Sharding, nodes, versions",
    ":material/lan:",
    (
        "sharding",
        "shard_size",
        "reshard_after_forward",
        "gpus_per_node",
        "host_ram_per_node",
        "disk_bytes_per_second",
        "framework_version",
        "torch_version",
    ),
)
BATCH = Group(
    "batch",
    "Mini- and micro-batches",
    ":material/stacks:",
    (
        "prompts_per_update",
        "micro_batch_size",
        "logprob_micro_batch_size",
        "max_tokens_per_micro_batch",
        "batch_shape",
        "mean_prompt_tokens",
        "validation_response_tokens",
    ),
)
SAVERS = Group(
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
        "liger",
        "compile",
        "empty_cache",
        "expandable_segments",
    ),
)
ROLLOUT = Group(
    "rollout",
    "Rollout engine",
    ":material/bolt:",
    (
        "rollout",
        "gpu_memory_utilization",
        "rollout_gpus",
        "rollout_overlap",
        "rollout_tensor_parallel",
        "vllm_sleep_level",
        "max_num_seqs",
        "max_num_batched_tokens",
        "rollout_expert_parallel",
        "enforce_eager",
        "async_scheduling",
        "kv_cache_dtype",
        "rollout_quantization",
        "sync_bucket_bytes",
        "temperature",
        "resampling_factor",
    ),
)
MONEY = Group(
    "money",
    "Time and money",
    ":material/payments:",
    ("steps", "save_steps", "eval_steps", "validation_responses", "price_per_gpu_hour"),
)

SECTIONS: tuple[Section, ...] = (
    Section(
        "Method and framework",
        ":material/deployed_code:",
        (("method", "variation"), ("framework", "finetuning")),
        (PRECISION, ROLES, *OWN),
    ),
    Section("Hardware", ":material/memory:", (("gpu", "gpus"),), (HARDWARE,)),
    Section(
        "Batch and lengths",
        ":material/straighten:",
        (
            ("prompts_per_step", "responses_per_prompt"),
            ("prompt_tokens", "response_tokens"),
        ),
        (BATCH,),
    ),
    Section("Memory, engine, money", ":material/tune:", (), (SAVERS, ROLLOUT, MONEY)),
)
"""The sidebar, top to bottom."""

GROUPS = tuple(group for section in SECTIONS for group in section.groups)
"""The folded groups, top to bottom."""
