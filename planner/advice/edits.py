"""Edits that people make to plans: a few fields set together, and what kind of change that is.

The estimate decides what each of them does; nothing here knows. An edit that a plan refuses drops
out when it is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from planner.plan import Plan, references
from planner.plan.defaults import framework_defaults
from planner.plan.methods import method_of
from planner.plan.possible_batches import possible_batches
from planner.plan.relevance import without_effect
from planner.values.sharding import sharding_of

Changes = dict[str, Any]

Kind = Literal["engine", "memory", "numbers", "training", "GPUs"]
"""What an edit touches: how responses are generated, where and when things are kept, in how many
bits, what is trained, or what is paid for. The first two leave the training as it was asked for."""

KINDS: tuple[Kind, ...] = get_args(Kind)
KEEPS: tuple[Kind, ...] = ("engine", "memory", "numbers")
"""Kinds after which the same weights train on the same responses with as many GPUs."""

COSTS: Mapping[Kind, str] = {
    "engine": "",
    "memory": "",
    "numbers": "stored in fewer bits",
    "training": "changes what is trained",
    "GPUs": "more GPUs",
}
"""What a person gives for it besides time; empty where nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A few fields set together."""

    title: str
    kind: Kind
    changes: Mapping[str, Any] = field(hash=False)


def without_use(plan: Plan) -> set[str]:
    """Fields that change nothing in a plan; a method's own are its own advice's."""
    return {*without_effect(plan)} - {*method_of(plan).own_fields}


Titled = Iterator[tuple[str, Changes]]


def edits(plan: Plan) -> Iterator[Edit]:
    """Edits that could save memory in some plan."""
    every: tuple[tuple[Kind, Titled], ...] = (
        ("memory", _memory(plan)),
        ("engine", _engine(plan)),
        ("numbers", iter(NUMBERS)),
        ("training", _training(plan)),
        ("GPUs", _gpus(plan)),
    )
    for kind, found in every:
        for title, changes in found:
            yield Edit(title=title, kind=kind, changes=changes)


def _memory(plan: Plan) -> Titled:
    yield from MEMORY
    yield from _own(plan, "memory")
    for title, name in HALVED.items():
        value = getattr(plan, name)
        if value > 1:
            half = possible_batches({**plan.model_dump(), name: value // 2}).get(name, value // 2)
            lower = title if half == value // 2 else title.replace("Halve", "Lower")
            yield lower.format(half), {name: half}
        if value > 3:
            yield title.partition(" to ")[0].replace("Halve", "Set") + " to 1", {name: 1}
    row = plan.prompt_tokens + plan.response_tokens
    if plan.max_tokens_per_micro_batch > row:
        half = max(plan.max_tokens_per_micro_batch // 2, row)
        yield f"Lower the token budget to {half:,}", {"max_tokens_per_micro_batch": half}
    if plan.finetuning != "full" and plan.reference in ("copy", "offloaded"):
        yield "Disable the adapters to get the reference", {"reference": "adapter-disabled"}
    yield "Offload the reference", {"reference": "offloaded"}
    if plan.host_ram_per_node:
        for title, name, kept in ON_THE_GPU:
            yield title, {name: kept}
    for (name, value), (title, other) in INSTEAD.items():
        if getattr(plan, name) == value:
            yield title, {name: other}
    if plan.gpus > 1 or not sharding_of(plan).alone:
        yield "Shard everything with FSDP2", {"sharding": "fsdp2", "shard_size": 0}


def _own(plan: Plan, touched: Kind) -> Titled:
    for kind, title, changes in method_of(plan).edits:
        if kind == touched:
            yield title, dict(changes)


def _engine(plan: Plan) -> Titled:
    level = framework_defaults(dict(plan)).get("vllm_sleep_level", 2)
    yield f"Let the engine sleep while training (level {level})", {"vllm_sleep_level": level}
    lower = round(plan.gpu_memory_utilization - 0.1, 2)
    if lower >= 0.1:
        yield f"Lower GPU memory utilization to {lower:.0%}", {"gpu_memory_utilization": lower}
    over = 2 * plan.rollout_tensor_parallel
    yield spread_title(plan, over), {"rollout_tensor_parallel": over}
    if plan.max_num_batched_tokens > FEW_TOKENS:
        yield (
            f"Prefill at most {FEW_TOKENS:,} tokens at once",
            {"max_num_batched_tokens": FEW_TOKENS},
        )


FEW_TOKENS = 2048
"""A prefill batch that still keeps a card busy, and vLLM's own smallest default."""


def spread_title(plan: Plan, over: int) -> str:
    """What spreading a plan's engine over so many GPUs is called."""
    verb = "Raise" if over > plan.rollout_tensor_parallel else "Lower"
    return f"{verb} the engine's tensor parallel size to {over}"


def share_title(share: float) -> str:
    """What giving the engine such a share of the card is called."""
    return f"Set GPU memory utilization to {share:.0%}"


def _training(plan: Plan) -> Titled:
    if plan.finetuning == "full":
        base = {"reference": "adapter-disabled"} if references.compares(plan) else {}
        yield "Train LoRA adapters only", {"finetuning": "lora", **base}
    half = plan.response_tokens // 2
    if half:
        longest = min(plan.validation_response_tokens, half)
        changes = {"response_tokens": half, "validation_response_tokens": longest}
        yield f"Halve responses to {half:,} tokens", changes
    yield from _own(plan, "training")


def _gpus(plan: Plan) -> Titled:
    more: Changes = {"gpus": 2 * plan.gpus}
    if sharding_of(plan).alone and method_of(plan).engines:
        more["sharding"] = "fsdp2"
    if plan.rollout == "vllm-separate":
        more["rollout_gpus"] = 2 * plan.rollout_gpus
    yield f"Use {2 * plan.gpus} GPUs", more


MEMORY: tuple[tuple[str, Changes], ...] = (
    ("Turn on gradient checkpointing", {"gradient_checkpointing": "full"}),
    (
        "Offload checkpointed activations to host RAM",
        {"gradient_checkpointing": "full", "activation_offload": True},
    ),
    ("Use fused linear cross-entropy", {"logits": "fused"}),
    ("Use chunked cross-entropy", {"logits": "chunked"}),
    ("Compute logits for responses only", {"logits": "response"}),
    ("Use the SDPA attention kernel", {"attention": "sdpa"}),
    ("Use flash attention", {"attention": "flash"}),
    ("Use the fused AdamW", {"optimizer": "adamw-fused"}),
    ("Reshard weights after each forward", {"reshard_after_forward": True}),
    ("Offload the optimizer between phases", {"offload": "optimizer-between-phases"}),
    ("Offload weights and optimizer between phases", {"offload": "all-between-phases"}),
    ("Offload weights and optimizer to host RAM", {"offload": "all"}),
    ("Empty the cache between phases", {"empty_cache": "between-phases"}),
)

NUMBERS: tuple[tuple[str, Changes], ...] = (
    ("Use 8-bit AdamW", {"optimizer": "adamw-8bit"}),
    ("Keep the KV cache in fp8", {"kv_cache_dtype": "fp8"}),
)

HALVED = {
    "Halve the micro-batch to {}": "micro_batch_size",
    "Halve the log-prob micro-batch to {}": "logprob_micro_batch_size",
}

ON_THE_GPU: tuple[tuple[str, str, Any], ...] = (
    ("Keep weights and optimizer on the GPU", "offload", "none"),
    ("Keep checkpointed activations on the GPU", "activation_offload", False),
    ("Keep the reference on the GPU", "reference", "copy"),
)
"""What leaves a node more host RAM, where somebody has said how much it has."""

INSTEAD = {
    ("reference", "cached-activations"): (
        "Cache the reference's log-probs, not its hidden states",
        "cached-logprobs",
    ),
    ("reference", "dual-output"): (
        "Give the reference a pass of its own",
        "adapter-disabled",
    ),
    ("critic", "separate"): ("Let the critic share the policy's body", "shared"),
}
"""What a field with this value could be instead."""
