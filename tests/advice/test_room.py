"""Use the free memory: what is faster fits, is an estimate, and claims no more than its error."""

from __future__ import annotations

from itertools import product

import pytest

from planner.advice import room
from planner.advice.advice import Advice
from planner.advice.outcome import Level, Outcome, outcome_of, seconds_between, usd_between
from planner.estimate import estimate
from planner.plan import Plan
from planner.values.step_phases import POLICY_BACKWARD, ROLLOUT

PLAN = Plan()


@pytest.fixture(scope="module")
def advice() -> Advice:
    return Advice(estimate(PLAN))


def test_every_faster_change_fits_and_is_faster_by_an_estimate(advice: Advice) -> None:
    before = estimate(PLAN).step_seconds
    assert before is not None and len(advice.faster) > 3
    for one in advice.faster:
        after = estimate(PLAN.changed(**one.changes))
        assert after.verdict.word == "fits"
        assert after.step_seconds is not None and after.step_seconds < before
        assert one.step_seconds == after.step_seconds
    seconds = [one.step_seconds or 0.0 for one in advice.faster]
    assert seconds == sorted(seconds)


def test_all_together_is_no_slower_than_the_best_alone_and_fits(advice: Advice) -> None:
    assert advice.used is not None
    after = estimate(PLAN.changed(**advice.used.changes))
    assert after.verdict.word == "fits" and after.step_seconds == advice.used.step_seconds
    assert all((advice.used.step_seconds or 0.0) <= (one.step_seconds or 0.0)
               for one in advice.faster)  # fmt: skip


def test_a_sweeps_best_is_the_best_of_every_estimate() -> None:
    over = {"micro_batch_size": [1, 2, 4, 8, 16], "logprob_micro_batch_size": [1, 8, 64]}
    found = room.fastest(PLAN, over)
    able = {}
    for values in product(*over.values()):
        footprint = estimate(PLAN.changed(**dict(zip(over, values, strict=True))))
        if footprint.verdict.word == "fits":
            able[values] = footprint.step_seconds or 0.0
    assert found == dict(zip(over, min(able, key=lambda each: able[each]), strict=True))
    assert len(able) < 15, "some do not fit, and one of those would be the fastest"


def test_an_engine_without_graphs_is_offered_them() -> None:
    advice = Advice(estimate(PLAN.changed(enforce_eager=True)))
    assert {"enforce_eager": False} in [dict(one.changes) for one in advice.faster]


def test_liger_kernels_are_offered_where_a_framework_has_them() -> None:
    plan = Plan(method="sft", framework="trl", gpus=8)
    advice = Advice(estimate(plan))
    assert {"liger": True} in [dict(one.changes) for one in advice.faster]
    other = Advice(estimate(plan.changed(compile=True)))
    assert {"liger": True} not in [dict(one.changes) for one in other.faster]


def test_a_spread_engine_is_offered_where_it_saves_time_and_not_memory() -> None:
    plan = Plan(
        model="Qwen/Qwen2.5-32B", gpus=32, gpu_memory_utilization=0.85, offload="all",
        response_tokens=8192, validation_response_tokens=8192,
    )  # fmt: skip
    advice = Advice(estimate(plan))
    assert advice.outcome.fits
    best = advice.faster[0]
    assert best.changes["rollout_tensor_parallel"] >= 4
    assert best.seconds.sure, "far beyond the error of the rollout's seconds"
    assert (best.step_seconds or 0.0) < 0.6 * (advice.outcome.step_seconds or 0.0)


def test_fewer_gpus_are_offered_for_less_money_only(advice: Advice) -> None:
    plan = PLAN.changed(gpus=32)
    found = Advice(estimate(plan)).cheaper
    assert found
    for one in found:
        assert one.after.plan.gpus < 32 and one.fits and one.cost == ""
        assert (one.after.usd_run or 0.0) < (one.before.usd_run or 0.0)


def outcome(rollout: float, update: float, *, wide: float = 2.0) -> Outcome:
    """Figures made up: only seconds differ, each with a factor ``wide`` to both sides."""
    levels = tuple(
        Level(kind, "trainer", 1, 1, 1, 0, 0, seconds, seconds / wide, seconds * wide, {})
        for kind, seconds in ((ROLLOUT, rollout), (POLICY_BACKWARD, update))
    )
    total = rollout + update
    return Outcome(
        plan=PLAN, word="fits", blockers=(), budget_bytes=10, device_bytes=1, trainer_bytes=1,
        host_bytes=0, worst="rollout", levels=levels, step_seconds=total, low_seconds=total / wide,
        high_seconds=total * wide, usd_run=total, low_usd=total / wide, high_usd=total * wide,
    )  # fmt: skip


def test_a_gain_inside_the_error_is_not_claimed() -> None:
    found = seconds_between(outcome(100, 100), outcome(30, 100))
    assert (found.sign, found.sure, found.by) == ("less", False, -70)


def test_what_both_plans_share_does_not_hide_a_gain() -> None:
    # 20 × 2 is less than 100 / 2, whatever the update takes in both.
    found = seconds_between(outcome(100, 1000), outcome(20, 1000))
    assert found.sign == "less" and found.sure
    assert usd_between(outcome(100, 1000), outcome(20, 1000)).sure
    assert not seconds_between(outcome(100, 1000), outcome(20, 1100)).sure


def test_the_same_is_the_same() -> None:
    found = seconds_between(outcome(100, 100), outcome(100, 100.5))
    assert (found.sign, found.sure) == ("same", True)


def test_what_nobody_knows_is_not_compared() -> None:
    unknown = outcome_of(estimate(Plan(gpu="custom", gpu_bytes=80 * 2**30)))
    assert unknown.step_seconds is None
    assert seconds_between(unknown, unknown).sign == "not known"
