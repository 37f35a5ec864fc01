"""Supervised fine-tuning: one forward and backward per micro-batch, nothing generated."""

from __future__ import annotations

from planner.rule import NoEffect, Rule
from planner.values.method import NOTHING_GENERATED, POLICY, Method
from planner.values.step_phases import given

METHOD = Method(
    name="sft",
    title="SFT",
    label="SFT · supervised fine-tuning",
    order=80,
    roles=(POLICY,),
    phases=given(),
    objective="cross-entropy",
    rollouts=NOTHING_GENERATED,
    most_responses=1,
    defaults={
        "kl": "none",
        "reference": "none",
        "critic": "none",
        "rollout": "none",
        "responses_per_prompt": 1,
        "reward": "rule",
        "logits": "full",
    },
    rules=(
        Rule(
            "kl",
            lambda plan: plan.kl != "none",
            "Supervised fine-tuning has no KL term.",
            "Set kl to none.",
        ),
    ),
    without_effect=(
        NoEffect(("logprob_micro_batch_size",), "no forward without gradient uses it"),
        NoEffect(("responses_per_prompt",), "each prompt has one response"),
        NoEffect(("kl", "reference", "reward", "reward_model"), "supervised fine-tuning has none"),
        NoEffect(("rollout",), "supervised fine-tuning generates nothing"),
        NoEffect(("entropy",), "there is no policy loss"),
    ),
)
