"""How a trial's few rounds stand for a whole step: seconds, tokens and FLOPs by phase. No torch.

A trial runs two micro-batches of each kind and some tokens of a rollout; a step has more of the
same. Seconds of what was run are led to the whole step here, tokens and FLOPs are counted from
the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from planner.formulas.compute import backward_flops, forward_flops, head_flops
from planner.methods.grade.seconds import policy_flops
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.quantities import quantities

ALL = 16
"""Responses up to this many tokens are decoded whole."""
ANCHORS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Places in a longer response at which decoding is timed."""
PASSES = 2
"""Batches of a kind that a trial runs."""

SCORING = ("old log-probs", "reference log-probs", "values", "reward")
ROLLOUT, CRITIC, OPTIMIZER = "rollout", "critic update", "optimizer step"
FORWARD, BACKWARD = "policy forward", "policy backward"


@cache
def sampled_tokens(tokens: int) -> tuple[int, ...]:
    """Indices of the tokens of a response that a trial computes, in order.

    0 is the prefill. Each place is computed twice in a row: the first token after a leap finds
    the allocator's cache unprepared, the second does not.
    """
    if tokens <= ALL:
        return tuple(range(tokens))
    found = {0}
    for share in ANCHORS:
        place = 2 + round(share * (tokens - 3))
        found |= {place - 1, place}
    return tuple(sorted(found))


def rollout_seconds(decode: Mapping[int, float], tokens: int) -> float:
    """Seconds of a prefill and every token after it, from a few tokens' seconds.

    Between two places the time of a token grows evenly, as its cache does.
    """
    total = decode[0]
    if tokens <= ALL:
        return sum(decode.values())
    places = [index for index in sorted(decode) if index and index - 1 in decode and index != 1]
    for index in range(1, tokens):
        total += _between(places, decode, index)
    return total


def _between(places: Sequence[int], decode: Mapping[int, float], index: int) -> float:
    if index <= places[0]:
        return decode[places[0]]
    for low, high in zip(places, places[1:], strict=False):
        if index <= high:
            share = (index - low) / (high - low)
            return decode[low] + share * (decode[high] - decode[low])
    return decode[places[-1]]


def step_seconds(
    plan: Plan, phase: str, entries: Sequence[float], decode: Mapping[int, float]
) -> float:
    """Seconds that a phase takes in a whole step.

    Args:
        plan: what ran.
        phase: its name.
        entries: seconds of each time that the trial was in the phase, in one step.
        decode: seconds of the tokens computed in a rollout, by index.
    """
    q = quantities(plan)
    updates, batches = int(q.updates_per_step), int(q.micro_batches)
    spent = sum(entries)
    if phase == ROLLOUT and decode:
        return spent - sum(decode.values()) + rollout_seconds(decode, plan.response_tokens)
    if phase in SCORING:
        passes = -(-int(q.sequences_per_gpu_step) // int(q.logprob_sequences))
        return spent * passes / min(passes, PASSES)
    if phase in (FORWARD, BACKWARD):
        return spent * updates * batches / len(entries)
    if phase == OPTIMIZER:
        return spent * updates
    if phase == CRITIC:
        # Micro-batches' forwards and backwards, then the optimizer, are entries of one phase.
        run = (len(entries) - 1) // 2
        return updates * (sum(entries[:-1]) * batches / run + entries[-1])
    return spent


def step_tokens(plan: Plan, phase: str) -> float | None:
    """Token positions that a GPU works on in a phase of a whole step; None where it has none."""
    q = quantities(plan)
    sequences = int(q.sequences_per_gpu_step)
    if phase == ROLLOUT:
        return float(sequences * plan.response_tokens)
    if phase == OPTIMIZER:
        return None
    if phase in (*SCORING, CRITIC, FORWARD, BACKWARD):
        return float(sequences * int(q.row_tokens))
    return None


def step_flops(plan: Plan, phase: str) -> float | None:
    """FLOPs of a GPU in a phase of a whole step, by the formulas of the estimate.

    None where there are next to none (the optimizer), or no formula.
    """
    facts, q = facts_of(plan), quantities(plan)
    if plan.method == "grade" and phase in (FORWARD, BACKWARD):
        return _unrolled_flops(plan, phase)
    sequences, row = int(q.sequences_per_gpu_step), int(q.row_tokens)
    tokens = sequences * row
    scored = tokens
    if plan.method != "sft" and plan.logits != "full":
        scored = sequences * (plan.response_tokens + 1)
    policy, critic = facts.policy, facts.critic
    trains, recompute = plan.finetuning == "full", plan.gradient_checkpointing == "full"
    head = float(head_flops(policy, tokens=scored))
    body = float(forward_flops(policy, tokens=tokens, row_tokens=row, head=False))
    if phase == ROLLOUT:
        decoded = head_flops(policy, tokens=sequences * plan.response_tokens)
        return body + float(decoded)
    if phase in ("old log-probs", "reference log-probs", FORWARD):
        return body + head
    if phase == "reward":
        return float(forward_flops(facts.reward, tokens=tokens, row_tokens=row, head=False))
    if phase == "values":
        return float(forward_flops(critic, tokens=tokens, row_tokens=row, head=False))
    if phase == BACKWARD:
        back = backward_flops(
            policy,
            tokens=tokens,
            row_tokens=row,
            recompute=recompute,
            weights_train=trains,
            head=False,
        )
        return float(back) + head * (1 + trains)
    if phase == CRITIC:
        back = backward_flops(
            critic,
            tokens=tokens,
            row_tokens=row,
            recompute=recompute,
            weights_train=trains,
            head=False,
        )
        return float(back) + float(forward_flops(critic, tokens=tokens, row_tokens=row, head=False))
    return None


def _unrolled_flops(plan: Plan, phase: str) -> float | None:
    """GRADE's: every generated token runs the row so far. The reward model's are left out."""
    if phase == BACKWARD:
        return None
    return float(policy_flops(scene_of(plan, facts_of(plan))))


def trial_flops(plan: Plan, steps: int) -> float:
    """FLOPs of a trial's steps, about: what decides whether a processor is too slow for it."""
    q = quantities(plan)
    updates, batches = int(q.updates_per_step), int(q.micro_batches)
    passes = -(-int(q.sequences_per_gpu_step) // int(q.logprob_sequences))
    phases = {FORWARD: batches * updates / min(batches, PASSES)}
    phases[BACKWARD] = phases[FORWARD]
    if plan.method in ("grpo", "ppo", "intuitor"):
        phases["old log-probs"] = passes / min(passes, PASSES)
    if plan.method == "dpo" or plan.kl != "none":
        phases["reference log-probs"] = passes / min(passes, PASSES)
    if plan.critic == "separate":
        phases[CRITIC] = phases[FORWARD]
        phases["values"] = passes / min(passes, PASSES)
    total = sum((step_flops(plan, name) or 0.0) / cut for name, cut in phases.items())
    if plan.method == "grade":
        total *= 3  # a backward is two forwards
    if plan.rollout == "hf":
        share = len(sampled_tokens(plan.response_tokens)) / plan.response_tokens
        total += (step_flops(plan, ROLLOUT) or 0.0) * share
    return total * steps
