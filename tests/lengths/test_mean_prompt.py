"""A mean prompt decides seconds where prompts are not padded, and no byte anywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner import Plan, estimate, sweep
from planner.footprint import Footprint
from planner.phases.scene import scene_of
from planner.plan.facts import facts_of
from planner.setup.quantities import Passes

CAP, MEAN = 1024, 128
VERL = Plan(
    method="grpo",
    framework="verl",
    prompt_tokens=CAP,
    response_tokens=512,
    validation_response_tokens=512,
    prompts_per_step=256,
    micro_batch_size=4,
    save_steps=10,
    eval_steps=10,
    validation_responses=64,
)
SPREAD = "1~lognormal_300~150"


def passes(plan: Plan) -> Passes:
    return scene_of(plan, facts_of(plan)).q.training


def seconds(plan: Plan, phase: str) -> float:
    (found,) = (one.seconds for one in estimate(plan).phases if one.name == phase)
    assert found is not None
    return found


def without_times(found: Footprint) -> list[tuple[object, ...]]:
    return [
        (one.name, one.instant, one.device_bytes, one.low_bytes, one.high_bytes, one.host_bytes)
        for one in found.phases
    ]


@pytest.mark.parametrize("lengths", ["", SPREAD])
def test_packed_rows_compute_the_prompts_that_are_there(lengths: str) -> None:
    """By hand: as many tokens as sequences times a mean prompt and a mean response."""
    plan = VERL.changed(length_distribution=lengths)
    capped, real = passes(plan), passes(plan.changed(mean_prompt_tokens=MEAN))
    sequences = 256 * 8 / 8
    assert capped.tokens - real.tokens == pytest.approx(sequences * (CAP - MEAN))
    assert real.rounds == capped.rounds == sequences / 4
    if not lengths:
        assert real.tokens == sequences * (MEAN + 512)
        assert real.row_tokens == MEAN + 512


def test_a_token_budget_holds_more_rows_of_short_prompts() -> None:
    plan = VERL.changed(max_tokens_per_micro_batch=16_384, mean_prompt_tokens=MEAN)
    # 256 sequences of 640 tokens: 10 budgets; at the caps 10 rows of 1,536 fill one, so 26.
    assert passes(plan).rounds == 10
    assert passes(plan.changed(mean_prompt_tokens=0)).rounds == 26


def test_the_engine_reads_the_prompts_that_are_there() -> None:
    """Its rollout takes what that of a plan with such a cap takes, where the cache is not short."""
    roomy = VERL.changed(gpu_memory_utilization=0.6)
    short = roomy.changed(mean_prompt_tokens=MEAN)
    same = roomy.changed(prompt_tokens=MEAN)
    for phase in ("rollout", "validation"):
        assert seconds(short, phase) == pytest.approx(seconds(same, phase), rel=1e-9)
        assert seconds(short, phase) < 0.95 * seconds(roomy, phase)
    for phase in ("old log-probs", "policy forward", "policy backward"):
        assert seconds(short, phase) == pytest.approx(seconds(same, phase), rel=1e-9)


def test_memory_stays_planned_for_the_longest() -> None:
    found = estimate(VERL.changed(mean_prompt_tokens=MEAN))
    assert without_times(found) == without_times(estimate(VERL))
    said = " ".join(found.notes)
    assert "after prompts of 128 tokens on average" in said
    assert "prompt + response at their limits" in said


def test_padded_rows_are_as_long_as_the_longest_prompt() -> None:
    """No mean says how long that is, so training stays at the cap; the engine does not pad."""
    trl = Plan(method="grpo", framework="trl", prompt_tokens=CAP, response_tokens=512)
    short = trl.changed(mean_prompt_tokens=MEAN)
    assert passes(short) == passes(trl)
    assert seconds(short, "policy backward") == seconds(trl, "policy backward")
    assert seconds(short, "rollout") < seconds(trl, "rollout")
    own = trl.changed(rollout="hf")
    assert seconds(own.changed(mean_prompt_tokens=MEAN), "rollout") == seconds(own, "rollout")


def test_rates_count_the_tokens_that_are_there() -> None:
    from planner.cost import cost
    from planner.throughput import throughput

    def tokens_a_step(plan: Plan) -> float:
        found = estimate(plan)
        rate = throughput(found, cost(found))["tokens_per_second_per_gpu"].value
        assert found.step_seconds is not None
        return rate * found.step_seconds * plan.gpus

    assert tokens_a_step(VERL) == pytest.approx(2048 * (CAP + 512))
    short = VERL.changed(mean_prompt_tokens=MEAN)
    assert tokens_a_step(short) == pytest.approx(2048 * (MEAN + 512))


def test_a_sweep_over_means_is_its_plans() -> None:
    means = [0, 64, 256, CAP]
    table = sweep(VERL, {"mean_prompt_tokens": means, "response_tokens": [256, 512]})
    for row in table.itertuples():
        plan = VERL.changed(
            mean_prompt_tokens=int(row.mean_prompt_tokens), response_tokens=int(row.response_tokens)
        )
        assert row.step_seconds == pytest.approx(estimate(plan).step_seconds, rel=1e-9)
    # A mean at the cap is the cap.
    assert replace(passes(VERL.changed(mean_prompt_tokens=CAP)), imbalance=1) == passes(VERL)
