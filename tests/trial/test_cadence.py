"""Few rounds for a whole step: sums by hand, and straight lines that have to come out exact."""

from __future__ import annotations

import pytest

from planner.plan import Plan
from planner.plan.methods import methods
from planner.trial.run.cadence import (
    rollout_seconds,
    sampled_tokens,
    step_flops,
    step_seconds,
    step_tokens,
    trial_flops,
)
from trial.running import tiny

PLAN = tiny("ppo", "llama", prompts_per_step=12, prompts_per_update=6, micro_batch_size=2)
"""12 sequences on one training GPU: two updates of three micro-batches, scored two at a time."""


def test_short_responses_are_decoded_whole_and_long_ones_at_a_few_places() -> None:
    assert sampled_tokens(1) == (0,)
    assert sampled_tokens(16) == tuple(range(16))
    assert sampled_tokens(17) == (0, 1, 2, 5, 6, 8, 9, 11, 12, 15, 16)
    long = sampled_tokens(4096)
    assert len(long) == 11 and long[0] == 0 and long[-2:] == (4094, 4095)


@pytest.mark.parametrize("tokens", [1, 5, 16, 17, 100, 4096])
def test_time_that_grows_with_the_cache_is_integrated_exactly(tokens: int) -> None:
    def seconds(index: int) -> float:
        return 3.0 if index == 0 else 0.5 + 0.01 * index

    # The first token after a leap takes longer, and must not count.
    sampled = sampled_tokens(tokens)
    decode = {
        index: seconds(index) + (5.0 if index > 1 and index - 1 not in sampled else 0.0)
        for index in sampled
    }
    whole = sum(seconds(index) for index in range(tokens))
    # Token 1 stands for itself in a whole response, token 2 for it in a sampled one.
    slack = 0.011 if tokens > 16 else 1e-9
    assert rollout_seconds(decode, tokens) == pytest.approx(whole, abs=slack)


def test_entries_are_led_to_all_micro_batches_and_updates() -> None:
    two = (1.0, 2.0)
    assert step_seconds(PLAN, "policy forward", two, {}) == pytest.approx(1.5 * 3 * 2)
    assert step_seconds(PLAN, "optimizer step", (0.5,), {}) == pytest.approx(1.0)
    # Forward and backward of two micro-batches, then the optimizer: three batches, two updates.
    critic = (1.0, 2.0, 1.0, 2.0, 0.25)
    assert step_seconds(PLAN, "critic update", critic, {}) == pytest.approx(2 * (9.0 + 0.25))
    passes = 12 // PLAN.logprob_micro_batch_size
    scored = step_seconds(PLAN, "values", (1.0,), {})
    assert scored == pytest.approx(passes / 2)
    assert step_seconds(PLAN, "something else", (1.0, 1.0), {}) == 2.0


def test_a_rollouts_own_work_is_kept_beside_its_tokens() -> None:
    plan = tiny("grpo", "llama", gpus=1, rollout="hf", rollout_gpus=0, response_tokens=4)
    decode = {0: 1.0, 1: 0.1, 2: 0.1, 3: 0.1}
    assert step_seconds(plan, "rollout", (2.0,), decode) == pytest.approx(2.0)


def test_tokens_and_flops_are_of_one_gpus_step() -> None:
    assert step_tokens(PLAN, "policy forward") == 12 * 48
    assert step_tokens(PLAN, "rollout") == 12 * 23
    assert step_tokens(PLAN, "optimizer step") is None
    forward, backward = (step_flops(PLAN, f"policy {way}") for way in ("forward", "backward"))
    assert forward and backward and 1.9 < backward / forward < 2.1
    # Two layers of 64 x (64 + 2 * 32 + 64 + 3 * 176) weights and the head, twice per token.
    weights = 2 * 64 * (2 * 64 + 2 * 32 + 3 * 176) + 64 * 1000
    assert forward == pytest.approx(12 * 48 * 2 * weights, rel=0.05)
    assert step_flops(PLAN, "optimizer step") is None
    assert step_flops(PLAN, "weight sync") is None


@pytest.mark.parametrize("method", methods())
def test_a_trial_of_more_steps_is_more_work(method: str) -> None:
    plan: Plan = tiny(method, "llama")
    assert trial_flops(plan, 10) == pytest.approx(10 * trial_flops(plan, 1))
    assert trial_flops(plan, 1) >= (step_flops(plan, "policy forward") or 0)
