"""Intuitor: GRPO whose reward is the policy's own certainty about its answer.

Self-certainty is computed without gradient together with the old log-probs, once per
step; the update never sees it. The document's premise (gradient through it) is a
switch, to show what it would cost.
"""

from __future__ import annotations

from planner.methods.intuitor.fields import WITH_HEAD, IntuitorFields
from planner.plan.fields import PlanFields as Plan
from planner.plan.frameworks import framework_named, ours
from planner.rule import NoEffect, Rule
from planner.values.loss_code import POLICY as POLICY_LOSS
from planner.values.loss_code import LossCode
from planner.values.method import POLICY, REFERENCE, Method
from planner.values.step_phases import OLD_LOG_PROBS, REFERENCE_LOG_PROBS, sampled


def _no_fused_head(plan: Plan) -> bool:
    code = framework_named(plan.framework).loss.get(plan.framework_version, LossCode(paths={}))
    way = code.own(POLICY_LOSS).get(plan.logits)
    return way is None or way.path != WITH_HEAD


METHOD = Method(
    name="intuitor",
    title="Intuitor",
    label="Intuitor · self-certainty as reward",
    order=50,
    roles=(POLICY, REFERENCE),
    phases=sampled(OLD_LOG_PROBS, REFERENCE_LOG_PROBS),
    least_responses=2,
    second_head_pass=lambda plan: (
        plan.self_certainty_gradient and plan.self_certainty != "full"
    ),
    fields=IntuitorFields,
    refused_elsewhere=("self_certainty_gradient",),
    defaults={"kl": "loss", "critic": "none", "responses_per_prompt": 8},
    forms=(("Self-certainty in chunks", "self_certainty", "full", "chunked-vocabulary"),),
    edits=(
        (
            *("memory", "Compute self-certainty in chunks of tokens"),
            {"self_certainty": "chunked-tokens"},
        ),
        (
            *("memory", "Compute self-certainty in chunks of the vocabulary"),
            {"self_certainty": "chunked-vocabulary"},
        ),
        ("memory", "Take self-certainty from the fused head", {"self_certainty": "fused"}),
        (
            *("training", "Leave self-certainty out of the gradient"),
            {"self_certainty_gradient": False},
        ),
    ),
    searched=("self_certainty",),
    rules=(
        Rule(
            "self_certainty_gradient",
            lambda plan: plan.self_certainty_gradient and not ours(plan.framework),
            "No framework's loss includes self-certainty.",
            "Set framework to plain, or self_certainty_gradient to false.",
        ),
        Rule(
            "self_certainty",
            lambda plan: plan.self_certainty == WITH_HEAD and _no_fused_head(plan),
            "Only the fused head returns self-certainty together with log-probs.",
            "Set logits to fused where the framework has it, or self_certainty to "
            "chunked-vocabulary.",
        ),
        Rule(
            "self_certainty",
            lambda plan: plan.self_certainty == WITH_HEAD and plan.self_certainty_gradient,
            "The fused head returns self-certainty without a gradient.",
            "Set self_certainty_gradient to false, or self_certainty to chunked-vocabulary.",
        ),
    ),
    without_effect=(
        NoEffect(("reward", "reward_model"), "the policy's certainty is the reward"),
    ),
)
