"""How a trial's few rounds stand for a whole step: seconds, tokens and FLOPs by phase. No torch.

A trial runs two micro-batches of each kind and some tokens of a rollout; a step has more of the
same. Seconds of what was run are led to the whole step here, tokens and FLOPs are counted from
the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from planner.estimate import phase_plans
from planner.phases.phase import Work
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.setup.quantities import quantities

ALL = 16
"""Responses up to this many tokens are decoded whole."""
ANCHORS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Places in a longer response at which decoding is timed."""
PASSES = 2
"""Batches of a kind that a trial runs."""


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


@lru_cache(maxsize=64)
def work_of(plan: Plan) -> Mapping[str, tuple[Work, ...]]:
    """The table of work of a plan's step, by phase: the rows that the estimate's times rest on."""
    phases = phase_plans(scene_of(plan, facts_of(plan)))
    return {phase.name: phase.work for phase in phases if phase.per_step}


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
    spent = sum(entries)
    rows = [row for row in work_of(plan).get(phase, ()) if not row.beside]
    if not rows:
        return spent
    first, last = rows[0], rows[-1]
    if first.run == "decode":
        rest = spent - sum(decode.values())
        return rest + rollout_seconds(decode, plan.response_tokens) if decode else spent
    if first.run == "score":
        return spent * int(first.rounds) / min(int(first.rounds), PASSES)
    if last.run != "optimizer":
        # Another's code may leave a phase and come back to it within one micro-batch.
        return spent * int(first.rounds) / min(int(first.rounds), PASSES, len(entries))
    # Micro-batches' forwards and backwards, then the optimizer, may be entries of one phase.
    batches = entries[:-1]
    passes = sum(batches) * len(rows[:-1]) * int(first.rounds) / len(batches) if batches else 0.0
    return passes + entries[-1] * int(last.rounds)


def step_tokens(plan: Plan, phase: str) -> float | None:
    """Token positions that a GPU works on in a phase of a whole step; None where it has none.

    A rollout's are those that it generates.
    """
    for row in work_of(plan).get(phase, ()):
        if row.flops is not None:
            return float(row.scored_tokens if row.run == "decode" else row.tokens)
    return None


def step_flops(plan: Plan, phase: str) -> float | None:
    """FLOPs of a GPU in a phase of a whole step, by the rows that the estimate's times rest on.

    None where there are next to none (the optimizer), or where nothing is computed.
    """
    rows = (row.flops for row in work_of(plan).get(phase, ()))
    known = [float(flops) for flops in rows if flops is not None]
    return sum(known) if known else None


def trial_flops(plan: Plan, steps: int) -> float:
    """FLOPs of a trial's steps, about: what decides whether a processor is too slow for it."""
    batches = min(int(quantities(plan).micro_batches), PASSES)
    total = 0.0
    for rows in work_of(plan).values():
        for row in rows:
            if row.flops is None or (row.run == "decode" and plan.rollout.startswith("vllm")):
                continue
            if row.elsewhere:
                continue
            if row.run == "decode":
                share = len(sampled_tokens(plan.response_tokens)) / plan.response_tokens
            else:
                share = min(int(row.rounds), PASSES if row.run == "score" else batches)
                share = share / int(row.rounds)
            total += float(row.flops) * share
    return total * steps
