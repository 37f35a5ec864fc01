"""Intuitor: GRPO whose reward is the policy's own certainty about its answer.

Self-certainty is computed without gradient together with the old log-probs, once per
step; the update never sees it. The document's premise (gradient through it) is a
switch, to show what it would cost.
"""

from __future__ import annotations

from typing import Any

from planner.frameworks import framework_named
from planner.methods.intuitor.fields import IntuitorFields
from planner.methods.method import Method
from planner.rule import NoEffect, Rule


def _own_loss(plan: Any) -> bool:
    framework = framework_named(plan.framework)
    code = framework.loss.get(plan.framework_version)
    return code is not None and code.counted_at_regather


METHOD = Method(
    name="intuitor",
    title="Intuitor",
    label="Intuitor · self-certainty as reward",
    order=50,
    least_responses=2,
    rewarded=False,
    second_head_pass=lambda plan: (
        plan.self_certainty_gradient and plan.self_certainty != "full"
    ),
    fields=IntuitorFields,
    refused_elsewhere=("self_certainty_gradient",),
    defaults={"kl": "loss", "critic": "none", "responses_per_prompt": 8},
    rules=(
        Rule(
            "self_certainty_gradient",
            lambda plan: plan.self_certainty_gradient and not _own_loss(plan),
            "No framework's loss has self-certainty in it.",
            "Set framework to plain, or self_certainty_gradient to false.",
        ),
    ),
    without_effect=(
        NoEffect(("reward", "reward_model"), "the policy's certainty is the reward"),
    ),
)
