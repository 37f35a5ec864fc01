"""What cannot be of responses, updates and micro-batches."""

from __future__ import annotations

import numpy as np

from planner.plan.lengths import dealt
from planner.plan.methods import method_of
from planner.rule import Rule
from planner.values.dealing import rest

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
        "prompts_per_update",
        lambda p: p.prompts_per_update > p.prompts_per_step,
        "prompts_per_update exceeds prompts_per_step.",
        "Lower it, or raise prompts_per_step.",
    ),
    Rule(
        "prompts_per_update",
        lambda p: p.prompts_per_step % p.prompts_per_update != 0,
        "prompts_per_update must divide prompts_per_step.",
        "Choose a divisor of prompts_per_step.",
    ),
    # A person's plan is filled up, or refused by the trainer that stops there; the sizes that a
    # sweep or a search makes up are those that need none of it.
    Rule(
        "prompts_per_update",
        lambda p: (left := rest(p, 1)) * np.ndim(left) != 0,
        "Of a sweep's sizes, sequences of one update (prompts_per_update × responses_per_prompt) "
        "must be a multiple of the GPUs that train; a plan of its own is filled up.",
        "Change prompts_per_update, responses_per_prompt or gpus.",
    ),
    Rule(
        "micro_batch_size",
        lambda p: (
            (p.max_tokens_per_micro_batch == 0)
            & ((left := rest(p, p.micro_batch_size)) * np.ndim(left) != 0)
        ),
        "Of a sweep's sizes, micro_batch_size must divide the sequences of one update on each GPU; "
        "a plan of its own is filled up.",
        "Choose a divisor.",
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
)
