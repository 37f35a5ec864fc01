"""What a method or a framework cannot have of the fields that all plans have."""

from __future__ import annotations

from planner.plan.frameworks import framework_named
from planner.plan.lengths import dealt
from planner.plan.methods import method_of
from planner.plan.references import IN_LOSS
from planner.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "rollout",
        lambda p: not method_of(p).generates and p.rollout != "none",
        "This method generates nothing.",
        "Set rollout to none.",
    ),
    Rule(
        "rollout",
        lambda p: method_of(p).engines and method_of(p).generates and p.rollout == "none",
        "This method needs responses.",
        "Set rollout to hf, vllm-colocated or vllm-separate.",
    ),
    Rule(
        "rollout",
        lambda p: not method_of(p).engines and method_of(p).generates and p.rollout != "in-graph",
        "This method generates inside its training graph.",
        "Set rollout to in-graph.",
    ),
    Rule(
        "rollout",
        lambda p: p.rollout == "in-graph" and "in-graph" not in method_of(p).rollouts,
        "This method does not generate inside its training graph.",
        "Set rollout to hf, vllm-colocated or vllm-separate, or choose an in-graph method.",
    ),
    Rule(
        "responses_per_prompt",
        lambda p: (
            (method_of(p).most_responses is not None)
            & (p.responses_per_prompt != method_of(p).most_responses)
        ),
        "This method has one response per prompt.",
        "Set responses_per_prompt to 1.",
    ),
    Rule(
        "responses_per_prompt",
        lambda p: p.responses_per_prompt < method_of(p).least_responses,
        "Group advantages need at least two responses per prompt.",
        "Set responses_per_prompt to 2 or more.",
    ),
    Rule(
        "logprob_micro_batch_size",
        lambda p: (
            (method_of(p).objective == "policy")
            & (p.max_tokens_per_micro_batch == 0)
            & (p.logprob_micro_batch_size > dealt(p)[1])
        ),
        "logprob_micro_batch_size exceeds the sequences of one step on each GPU.",
        "Lower it.",
    ),
    Rule(
        "reference",
        lambda p: p.reference in IN_LOSS and p.kl == "reward",
        "This reference is scored inside the loss, too late for a KL term in the reward.",
        "Set kl to loss, or reference to copy, adapter-disabled or cached-logprobs.",
    ),
    Rule(
        "reference",
        lambda p: p.reference in IN_LOSS and not framework_named(p.framework).loss_makes_reference,
        "No framework's trainer has this reference form.",
        "Set framework to plain, or set reference to one of: copy, offloaded, adapter-disabled, "
        "cached-logprobs.",
    ),
    Rule(
        "critic",
        lambda p: p.critic not in ("none", *method_of(p).critics),
        "This method cannot have the chosen critic.",
        "Set critic to none.",
    ),
)
