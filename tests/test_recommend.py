"""Recommendations: only what helps, what makes it fit first, never a formula of their own."""

from __future__ import annotations

from planner.estimate import estimate
from planner.plan import Plan, try_plan
from planner.recommend import WORTH_BYTES, candidates, recommend

TOO_LARGE = Plan(
    model="Qwen/Qwen2.5-7B",
    gpus=8,
    micro_batch_size=4,
    logprob_micro_batch_size=4,
    gradient_checkpointing="none",
)


def test_what_makes_it_fit_comes_first() -> None:
    before = estimate(TOO_LARGE)
    assert before.verdict.word == "out of memory"
    found = recommend(before)
    words = [suggestion.fits for suggestion in found]
    assert words == sorted(words, reverse=True)
    assert found[0].fits


def test_every_suggestion_is_a_plan_whose_estimate_it_reports() -> None:
    before = estimate(TOO_LARGE)
    for suggestion in recommend(before, most=50):
        after = estimate(TOO_LARGE.changed(**suggestion.changes))
        assert suggestion.device_bytes == after.device_bytes
        assert suggestion.saved_bytes == before.device_bytes - after.device_bytes
        assert suggestion.saved_bytes >= WORTH_BYTES or suggestion.fits
        assert suggestion.fits == (after.verdict.word == "fits")


def test_a_plan_that_fits_is_offered_savings_by_bytes_per_second() -> None:
    plan = Plan(micro_batch_size=4, gpu_memory_utilization=0.4)
    before = estimate(plan)
    assert before.verdict.word == "fits"
    rates = [
        suggestion.saved_bytes / max(suggestion.seconds_lost or 0.1, 0.1)
        for suggestion in recommend(before)
    ]
    assert rates == sorted(rates, reverse=True)


def test_candidates_change_fields_of_a_plan_only() -> None:
    for title, changes in candidates(TOO_LARGE):
        assert title and set(changes) <= set(Plan.model_fields)
        plan, problems = try_plan({**TOO_LARGE.model_dump(), **changes})
        assert plan is not None or problems
