"""DPO: a loss over pairs of given responses, against a frozen reference.

A micro-batch of pairs runs twice as many rows: all chosen responses, then all rejected
ones, in one forward.
"""

from __future__ import annotations

from planner.numeric import Num
from planner.plan.fields import PlanFields as Plan
from planner.plan.references import IN_LOSS
from planner.rule import NoEffect, Rule
from planner.values.method import NOTHING_GENERATED, POLICY, REFERENCE, Method
from planner.values.step_phases import REFERENCE_LOG_PROBS, given


def _holds_no_pair(budget: Num, plan: Plan) -> Num:
    return (budget > 0) & (budget < 2 * (plan.prompt_tokens + plan.response_tokens))


METHOD = Method(
    name="dpo",
    title="DPO",
    label="DPO · preference pairs",
    order=70,
    roles=(POLICY, REFERENCE),
    phases=given(REFERENCE_LOG_PROBS),
    rollouts=NOTHING_GENERATED,
    texts_per_response=2,
    most_responses=1,
    held_to_reference=True,
    defaults={
        "kl": "none",
        "critic": "none",
        "rollout": "none",
        "responses_per_prompt": 1,
    },
    rules=(
        Rule(
            "max_tokens_per_micro_batch",
            lambda plan: _holds_no_pair(plan.max_tokens_per_micro_batch, plan),
            "The token budget is smaller than one pair, which is two rows of prompt_tokens + "
            "response_tokens.",
            "Raise max_tokens_per_micro_batch, or set it to 0.",
        ),
        Rule(
            "kl",
            lambda plan: plan.kl != "none",
            "DPO's loss itself keeps the policy near its reference, without a KL term.",
            "Set kl to none.",
        ),
        Rule(
            "entropy",
            lambda plan: plan.entropy,
            "DPO's loss has no entropy bonus.",
            "Set entropy to false.",
        ),
        Rule(
            "reference",
            lambda plan: plan.reference == "none",
            "DPO's loss compares the policy with a reference.",
            "Set reference to copy (or adapter-disabled with LoRA), or to cached-logprobs.",
        ),
    ),
    without_effect=(
        NoEffect(
            ("logprob_micro_batch_size",),
            "the loss makes the reference's log-probs",
            lambda plan: plan.reference in IN_LOSS,
        ),
        NoEffect(("responses_per_prompt",), "each prompt has one pair of responses"),
        NoEffect(("kl", "entropy"), "DPO's loss has neither"),
        NoEffect(("reward", "reward_model"), "the pairs say which response is better"),
        NoEffect(("rollout",), "DPO learns from given responses"),
    ),
)
