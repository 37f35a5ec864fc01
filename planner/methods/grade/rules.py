"""What cannot be in a GRADE plan, or is not modelled yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.methods.grade.fields import own
from planner.plan.fields import PlanFields as Plan
from planner.problem import Problem
from planner.rule import NOT_YET, Rule
from planner.values.sharding import sharding_of

if TYPE_CHECKING:
    from planner.plan.facts import Facts

ROW_TOKENS = 16_384
"""Longest row of a soft generation: sums over its steps stay within 64-bit integers."""

FORMS = ("copy", "offloaded", "adapter-disabled")
"""References that run beside the policy."""

RULES: tuple[Rule, ...] = (
    Rule(
        "finetuning",
        lambda plan: plan.finetuning == "qlora",
        f"finetuning qlora with method grade {NOT_YET}",
        "Choose full or lora.",
    ),
    Rule(
        "liger",
        lambda plan: plan.liger,
        f"liger with method grade {NOT_YET}",
        "Set liger to false.",
    ),
    Rule(
        "sharding",
        lambda plan: not sharding_of(plan).replicated,
        "Soft tokens multiply the whole embedding outside the model's forward, which under this "
        f"sharding {NOT_YET}",
        "Set sharding to ddp, or to none on one GPU.",
    ),
    Rule(
        "master_dtype",
        lambda plan: (
            plan.dtype in ("bf16", "fp16")
            and plan.finetuning == "full"
            and plan.master_dtype != "none"
        ),
        f"GRADE under autocast {NOT_YET}",
        "Set master_dtype to none, as the method's code has it, or dtype to fp32.",
    ),
    Rule(
        "grade_autocast",
        lambda plan: plan.grade_autocast and plan.dtype == "fp32",
        "Autocast computes in half precision, but the plan's dtype is fp32.",
        "Set dtype to bf16, or grade_autocast to false.",
    ),
    Rule(
        "autocast",
        lambda plan: plan.autocast,
        "GRADE has its own field for autocast, grade_autocast.",
        "Set grade_autocast in place of autocast.",
    ),
    Rule(
        "base_dtype",
        lambda plan: plan.base_dtype == "fp32" and plan.finetuning != "full",
        f"GRADE on frozen weights in fp32 {NOT_YET}",
        "Set base_dtype to compute.",
    ),
    Rule(
        "optimizer_step",
        lambda plan: plan.optimizer_step == "in-backward",
        "GRADE's graph uses each weight in every generation step, so no weight's gradient is "
        "complete before the end of the backward.",
        "Set optimizer_step to micro-batch or update.",
    ),
    Rule(
        "compile",
        lambda plan: plan.compile,
        f"GRADE with compiled layers {NOT_YET}",
        "Set compile to false.",
    ),
    Rule(
        "activation_offload",
        lambda plan: plan.activation_offload,
        f"GRADE with offloaded activations {NOT_YET}",
        "Set activation_offload to false.",
    ),
    Rule(
        "response_tokens",
        lambda plan: plan.prompt_tokens + plan.response_tokens > ROW_TOKENS,
        f"A soft row above {ROW_TOKENS:,} tokens {NOT_YET}",
        "Lower prompt_tokens or response_tokens.",
    ),
    Rule(
        "reward",
        lambda plan: plan.reward != "model",
        "GRADE needs a reward model that gradients flow through.",
        "Set reward to model.",
    ),
    Rule(
        "kl",
        lambda plan: plan.kl != "none",
        "GRADE's KL term is set by grade_kl.",
        "Set kl to none.",
    ),
    Rule(
        "entropy",
        lambda plan: plan.entropy,
        "GRADE's loss has no entropy bonus.",
        "Set entropy to false.",
    ),
    Rule(
        "batch_shape",
        lambda plan: plan.batch_shape == "packed",
        "GRADE's soft rows grow token by token and cannot be packed.",
        "Set batch_shape to padded or full.",
    ),
    Rule(
        "max_tokens_per_micro_batch",
        lambda plan: plan.max_tokens_per_micro_batch != 0,
        "GRADE's rows all grow to the same length, so there is no token budget.",
        "Set max_tokens_per_micro_batch to 0.",
    ),
    Rule(
        "reference",
        lambda plan: plan.grade_kl != "none" and plan.reference not in FORMS,
        "GRADE's KL term needs a reference that runs beside the policy.",
        "Set reference to copy (or adapter-disabled with LoRA), or grade_kl to none.",
    ),
    Rule(
        "grade_reference_cache",
        lambda plan: plan.grade_reference_cache and plan.grade_kl == "none",
        "Without a KL term there is no reference, so a cache for it has no use.",
        "Set grade_kl to online, online-metric or batch, or grade_reference_cache to false.",
    ),
    Rule(
        "grade_dense_scatter",
        lambda plan: plan.grade_dense_scatter and plan.grade_top_k == 0,
        "Only top-k weights are scattered, and grade_top_k is 0.",
        "Set grade_top_k, or grade_dense_scatter to false.",
    ),
    Rule(
        "grade_reward_input",
        lambda plan: plan.grade_reward_input == "sparse" and plan.grade_top_k == 0,
        "A sparse reward input needs a top k, and grade_top_k is 0.",
        "Set grade_top_k, or grade_reward_input to dense.",
    ),
)


def fact_problems(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """What GRADE asks of the models: a vocabulary for its top k, and the judge's to be the same."""
    vocab, top_k = facts.policy.vocab, own(plan).grade_top_k
    if top_k > vocab:
        yield Problem(
            "grade_top_k",
            f"{top_k:,} tokens are more than the model's {vocab:,}.",
            "Lower grade_top_k, or set it to 0 for the whole vocabulary.",
        )
    if facts.reward.vocab != vocab:
        yield Problem(
            "reward_model",
            "The reward model reads the policy's soft tokens, but its vocabulary differs from the "
            "policy's.",
            "Choose a reward model of the policy's family.",
        )
    for arch in (facts.policy, facts.reward):
        if arch.measured:
            yield Problem(
                "method",
                f"{arch.family} has no derived sum, and coefficients of dry runs do not cover "
                "soft tokens.",
                "Choose another method, or a model with a derived activation sum.",
            )
            return
