"""Intuitor: GRPO whose reward is the policy's own certainty about its answer.

Self-certainty is computed without gradient together with the old log-probs, once per
step; the update never sees it. The document's premise (gradient through it) is a
switch, to show what it would cost.
"""

from __future__ import annotations

from planner.methods.intuitor.fields import IntuitorFields
from planner.methods.method import Method
from planner.rule import NoEffect

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
    without_effect=(
        NoEffect(("reward", "reward_model"), "the policy's certainty is the reward"),
    ),
)
