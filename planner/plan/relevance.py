"""Which fields have no effect in a plan, and why.

Pages hide these fields; an estimate notes those that were set away from their default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.plan.references import IN_LOSS
from planner.plan.rules import GRADE_FIELDS

Condition = Callable[[Any], bool]


def _no_engine(plan: Any) -> bool:
    return not str(plan.rollout).startswith("vllm")


def _no_rollout(plan: Any) -> bool:
    return bool(plan.rollout == "none")


def _not(method: str) -> Condition:
    return lambda plan: plan.method != method


RULES: tuple[tuple[tuple[str, ...], Condition, str], ...] = (
    (
        (
            "gpu_memory_utilization",
            "max_num_seqs",
            "max_num_batched_tokens",
            "enforce_eager",
            "kv_cache_dtype",
            "rollout_tensor_parallel",
        ),
        _no_engine,
        "no vLLM engine generates",
    ),
    (
        ("vllm_sleep_level",),
        lambda plan: plan.rollout != "vllm-colocated",
        "no engine shares the trainer's GPUs",
    ),
    (("rollout_gpus",), lambda plan: plan.rollout != "vllm-separate", "no separate engine"),
    (("validation_response_tokens",), _no_rollout, "nothing is generated"),
    (
        ("validation_response_tokens", "logprob_micro_batch_size", "logits", "logits_dtype"),
        lambda plan: plan.method == "grade",
        "GRADE's step has one forward, with fp32 logits of the last position",
    ),
    (
        ("logprob_micro_batch_size",),
        lambda plan: plan.method == "sft" or plan.max_tokens_per_micro_batch > 0,
        "no forward without gradient uses it",
    ),
    (
        ("logprob_micro_batch_size",),
        lambda plan: plan.method == "dpo" and plan.reference in IN_LOSS,
        "the loss makes the reference's log-probs",
    ),
    (
        ("micro_batch_size",),
        lambda plan: plan.max_tokens_per_micro_batch > 0,
        "max_tokens_per_micro_batch decides",
    ),
    (
        ("responses_per_prompt",),
        lambda plan: plan.method in ("sft", "dpo"),
        "each prompt has one response, or one pair of them",
    ),
    (
        ("kl", "reference", "reward"),
        lambda plan: plan.method == "sft",
        "supervised fine-tuning has none",
    ),
    (("kl", "entropy"), lambda plan: plan.method == "dpo", "DPO's loss has neither"),
    (("reward",), lambda plan: plan.method == "dpo", "the pairs say which response is better"),
    (("rollout",), lambda plan: plan.method == "sft", "supervised fine-tuning generates nothing"),
    (("rollout",), lambda plan: plan.method == "dpo", "DPO learns from given responses"),
    (
        ("reference",),
        lambda plan: plan.kl == "none" and plan.grade_kl == "none" and plan.method != "dpo",
        "there is no KL term",
    ),
    (("kl", "entropy"), lambda plan: plan.method == "grade", "GRADE's loss has grade_kl alone"),
    (
        ("reward", "reward_model"),
        lambda plan: plan.method == "intuitor",
        "the policy's certainty is the reward",
    ),
    (("reward_model",), lambda plan: plan.reward != "model", "no reward model runs here"),
    (("critic", "critic_model"), _not("ppo"), "only PPO has a critic"),
    (
        ("critic_model",),
        lambda plan: plan.critic == "shared",
        "the critic shares the policy's body",
    ),
    (("entropy",), lambda plan: plan.method == "sft", "there is no policy loss"),
    (("self_certainty", "self_certainty_gradient"), _not("intuitor"), "only Intuitor computes it"),
    (
        tuple(GRADE_FIELDS),
        _not("grade"),
        "only GRADE has it",
    ),
    (("lora_rank", "lora_targets"), lambda plan: plan.finetuning == "full", "all weights train"),
    (
        ("reshard_after_forward",),
        lambda plan: plan.sharding not in ("fsdp1", "fsdp2"),
        "only FSDP reshards",
    ),
    (("shard_size",), lambda plan: plan.sharding in ("none", "ddp"), "nothing is sharded"),
    (
        ("reduce_dtype",),
        lambda plan: plan.sharding not in ("fsdp1", "fsdp2"),
        "only FSDP reduces in a dtype of its own",
    ),
    (("gpus_per_node",), lambda plan: plan.gpus == 1, "there is one GPU"),
    (
        ("activation_offload",),
        lambda plan: plan.gradient_checkpointing != "full",
        "only checkpointed activations are offloaded",
    ),
    (
        ("logits_dtype",),
        lambda plan: plan.dtype == "fp32" or plan.logits == "fused",
        "the dtype is fixed by the path",
    ),
    (
        (
            "turns",
            "length_distribution",
            "tensor_parallel",
            "pipeline_parallel",
            "context_parallel",
            "expert_parallel",
        ),
        lambda plan: True,
        "it is not modelled yet",
    ),
)


def without_effect(plan: Any) -> dict[str, str]:
    """Field → reason, for every field that changes nothing in this plan."""
    found: dict[str, str] = {}
    for fields, applies, reason in RULES:
        if applies(plan):
            for field in fields:
                found.setdefault(field, reason)
    return found
