"""Which fields have no effect in a plan, and why.

Pages hide these fields; an estimate notes those that were set away from their default. A method's
own say stands in its folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from planner.plan import references
from planner.plan.fields import PlanFields as Plan
from planner.plan.frameworks import framework_named
from planner.plan.loss import path_of
from planner.plan.methods import method_of, methods
from planner.plan.rules.asked import autocasts
from planner.rule import NoEffect
from planner.values.loss_code import CROSS_ENTROPY
from planner.values.sharding import sharding_of

UNMODELLED = (
    "turns",
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
)
ENGINE_FIELDS = (
    "gpu_memory_utilization",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enforce_eager",
    "kv_cache_dtype",
    "async_scheduling",
    "rollout_quantization",
    "rollout_tensor_parallel",
    "rollout_expert_parallel",
    "sync_bucket_bytes",
)

UNSAMPLED = ("none", "in-graph")
"""Rollouts in which nobody samples responses: there are none, or the training graph makes them."""

ALWAYS: tuple[NoEffect, ...] = (
    NoEffect(
        ENGINE_FIELDS,
        "no vLLM engine generates",
        lambda plan: not plan.rollout.startswith("vllm"),
    ),
    NoEffect(
        ("rollout_expert_parallel",),
        "each engine has one GPU",
        lambda plan: plan.rollout_tensor_parallel == 1,
    ),
    NoEffect(
        ("disk_bytes_per_second",),
        "nothing is read from a disk or written to it",
        lambda plan: plan.save_steps == 0 and not references.on_disk(plan),
    ),
    NoEffect(
        ("vllm_sleep_level",),
        "no engine shares the trainer's GPUs",
        lambda plan: plan.rollout != "vllm-colocated",
    ),
    NoEffect(
        ("rollout_gpus", "rollout_overlap"),
        "no separate engine",
        lambda plan: plan.rollout != "vllm-separate",
    ),
    NoEffect(
        ("validation_response_tokens",),
        "nothing is generated",
        lambda plan: plan.rollout == "none",
    ),
    NoEffect(
        ("eval_steps", "validation_responses"),
        "no engine generates for a validation",
        lambda plan: plan.rollout in UNSAMPLED,
    ),
    NoEffect(
        ("validation_responses", "validation_response_tokens"),
        "nothing is validated",
        lambda plan: plan.eval_steps == 0,
    ),
    NoEffect(
        ("mean_prompt_tokens",),
        "padded prompts are planned at the limit, and no rollout samples from shorter ones",
        lambda plan: plan.batch_shape == "padded" and plan.rollout == "none",
    ),
    NoEffect(
        ("logprob_micro_batch_size", "micro_batch_size"),
        "max_tokens_per_micro_batch decides",
        lambda plan: plan.max_tokens_per_micro_batch > 0,
    ),
    NoEffect(
        ("length_distribution", "mean_prompt_tokens"),
        "all rows have one length",
        lambda plan: plan.batch_shape == "full" or plan.rollout == "in-graph",
    ),
    NoEffect(
        ("resampling_factor",),
        "no responses are sampled",
        lambda plan: plan.rollout in UNSAMPLED,
    ),
    NoEffect(
        ("reward_seconds", "reward_concurrency"),
        "no rule or other machine scores responses",
        lambda plan: plan.rollout in UNSAMPLED or plan.reward == "model",
    ),
    NoEffect(
        ("reward_concurrency",), "rewards take no time", lambda plan: plan.reward_seconds == 0
    ),
    NoEffect(("reference",), "there is no KL term", lambda plan: not references.compares(plan)),
    NoEffect(
        ("reward_model",), "no reward model runs here", lambda plan: plan.reward != "model"
    ),
    NoEffect(
        ("critic", "critic_model"),
        "this method has no critic",
        lambda plan: method_of(plan).critics == ("none",),
    ),
    NoEffect(
        ("critic_model",),
        "the critic shares the policy's body",
        lambda plan: plan.critic == "shared",
    ),
    NoEffect(
        ("lora_rank", "lora_targets", "lora_dropout"),
        "all weights train",
        lambda plan: plan.finetuning == "full",
    ),
    NoEffect(
        ("temperature",),
        "no engine samples",
        lambda plan: not (method_of(plan).engines and method_of(plan).generates),
    ),
    NoEffect(
        ("chunk_tokens", "chunk_compile"),
        "the loss does not work in chunks",
        lambda plan: path_of(plan) != "chunked",
    ),
    NoEffect(
        ("autocast",),
        "no adapters compute in fp32",
        lambda plan: (
            plan.finetuning == "full"
            or plan.master_dtype == "none"
            or not sharding_of(plan).replicated
        ),
    ),
    NoEffect(
        ("autocast",),
        "the framework asks for it",
        lambda plan: framework_named(plan.framework).autocasts_adapters,
    ),
    NoEffect(
        ("autocast",),
        "frozen weights in fp32 need it",
        lambda plan: plan.base_dtype == "fp32",
    ),
    NoEffect(
        ("base_dtype",),
        "no weights are frozen below adapters",
        lambda plan: plan.finetuning == "full",
    ),
    NoEffect(
        ("base_dtype",), "dtype is fp32 already", lambda plan: plan.dtype == "fp32"
    ),
    NoEffect(
        ("reshard_after_forward",),
        "only FSDP reshards",
        lambda plan: not sharding_of(plan).fsdp,
    ),
    NoEffect(
        ("shard_size",), "nothing is sharded", lambda plan: sharding_of(plan).replicated
    ),
    NoEffect(
        ("reduce_dtype",),
        "gradients are reduced as they are",
        lambda plan: sharding_of(plan).replicated,
    ),
    NoEffect(("gpus_per_node",), "there is one GPU", lambda plan: plan.gpus == 1),
    NoEffect(
        ("activation_offload",),
        "only checkpointed activations are offloaded",
        lambda plan: plan.gradient_checkpointing != "full",
    ),
    NoEffect(
        ("logits_dtype",),
        "the dtype is fixed by the path",
        lambda plan: plan.dtype == "fp32" or "fused" in (plan.logits, path_of(plan)),
    ),
    NoEffect(
        ("logits_dtype",),
        "autocast runs softmax in fp32",
        lambda plan: path_of(plan) in ("full", "response") and autocasts(plan),
    ),
    NoEffect(
        ("logits_dtype",),
        "the loss widens whole logits to fp32",
        lambda plan: path_of(plan) in ("full", "response")
        and method_of(plan).objective == CROSS_ENTROPY,
    ),
    NoEffect(("variation",), "this method has none", lambda plan: not method_of(plan).variations),
    NoEffect(UNMODELLED, "it is not modelled yet"),
)


@cache
def _of_other_methods(name: str) -> tuple[NoEffect, ...]:
    return tuple(
        NoEffect(other.own_fields, f"only {other.title} has it")
        for other in methods().values()
        if other.name != name and other.fields
    )


def _rules(plan: Plan) -> Iterator[NoEffect]:
    yield from method_of(plan).without_effect
    yield from _of_other_methods(plan.method)
    yield from ALWAYS
    for rule in framework_named(plan.framework).rules:
        if isinstance(rule, NoEffect):
            yield rule


def without_effect(plan: Plan) -> dict[str, str]:
    """Field → reason, for every field that changes nothing in this plan."""
    found: dict[str, str] = {}
    for rule in _rules(plan):
        if rule.applies(plan):
            for field in rule.fields:
                found.setdefault(field, rule.reason)
    return found
