"""Recommendations: only what helps, what makes it fit first, never a formula of their own."""

from __future__ import annotations

import pytest

from planner.advice import recommend
from planner.advice.advice import Advice
from planner.advice.edits import edits
from planner.advice.outcome import SAME, WORTH_BYTES
from planner.advice.suggestion import Suggestion
from planner.estimate import estimate
from planner.plan import Plan, try_plan
from planner.plan.presets import presets
from planner.units import GIB

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
        assert suggestion.after.device_bytes == after.device_bytes
        assert suggestion.saved_bytes == before.device_bytes - after.device_bytes
        least = min(WORTH_BYTES, SAME * before.device_bytes)
        assert suggestion.saved_bytes >= least or suggestion.fits
        assert suggestion.fits == (after.verdict.word == "fits")


def test_weights_that_stay_gathered_need_not() -> None:
    base = Plan(
        model="Qwen/Qwen2.5-32B", gpu="h100-80gb", gpus=8, sharding="fsdp2", method="sft",
        rollout="none", kl="none", reference="none", responses_per_prompt=1, finetuning="lora",
    )  # fmt: skip
    assert estimate(base).verdict.word == "fits"
    first = recommend(estimate(base.changed(reshard_after_forward=False)))[0]
    assert first.changes == {"reshard_after_forward": True} and first.fits


def test_a_plan_that_fits_is_offered_savings_by_bytes_per_second() -> None:
    plan = Plan(micro_batch_size=4, gpu_memory_utilization=0.4)
    before = estimate(plan)
    assert before.verdict.word == "fits"
    found = recommend(before, most=50)
    kept = [suggestion.keeps for suggestion in found]
    assert kept == sorted(kept, reverse=True) and not all(kept)
    for kind in (True, False):
        rates = [
            suggestion.saved_bytes / max(suggestion.seconds_lost or 0.1, 0.1)
            for suggestion in found
            if suggestion.keeps is kind
        ]
        assert rates == sorted(rates, reverse=True)


def test_candidates_change_fields_of_a_plan_only() -> None:
    for one in edits(TOO_LARGE):
        assert one.title and set(one.changes) <= set(Plan.model_fields)
        plan, problems = try_plan({**TOO_LARGE.model_dump(), **one.changes})
        assert plan is not None or problems


def offered(plan: Plan) -> dict[str, Suggestion]:
    """Every suggestion for a plan, by its title; two with one title would hide each other."""
    found = recommend(estimate(plan), most=50)
    titles = [suggestion.title for suggestion in found]
    assert len(set(titles)) == len(titles)
    return dict(zip(titles, found, strict=True))


def test_disabled_adapters_are_offered_as_the_reference_under_their_own_name() -> None:
    legacy = presets()["doc-001-legacy@1"].plan
    lora = Plan(
        model="Qwen/Qwen2.5-7B", gpus=1, sharding="none", finetuning="lora", reference="copy",
        gpu_memory_utilization=0.3,
    )  # fmt: skip
    title = "Disable the adapters to get the reference"
    # A second model of 4.05 and of 7.62 billion bf16 weights; the pass is the same, so 0 s.
    for plan, weights in ((legacy, 4.05e9), (lora, 7.62e9)):
        assert title in [suggestion.title for suggestion in recommend(estimate(plan))]
        found = offered(plan)
        assert found[title].changes == {"reference": "adapter-disabled"}
        # With the weights goes what the allocator holds beside them.
        assert found[title].saved_bytes == pytest.approx(2 * weights, rel=0.02)
        assert found[title].seconds_lost == 0
        assert "Train LoRA adapters only" not in found
    full = offered(TOO_LARGE)
    assert full["Train LoRA adapters only"].changes["reference"] == "adapter-disabled"
    assert title not in full


def test_every_other_form_of_self_certainty_is_offered() -> None:
    plan = presets()["intuitor-1.5b@1"].plan.changed(
        logits="fused", prompt_tokens=512, response_tokens=15_872,
        validation_response_tokens=15_872, gpu_memory_utilization=0.2,
        logprob_micro_batch_size=8,
    )  # fmt: skip
    named = {one.title: one.changes for one in edits(plan) if "self_certainty" in one.changes}
    assert named == {
        "Compute self-certainty in chunks of the vocabulary": {
            "self_certainty": "chunked-vocabulary"
        },
        "Compute self-certainty in chunks of tokens": {"self_certainty": "chunked-tokens"},
        "Take self-certainty from the fused head": {"self_certainty": "fused"},
    }
    found = offered(plan)["Compute self-certainty in chunks of the vocabulary"]
    after = plan.changed(**found.changes)
    before, then = (
        next(phase for phase in estimate(one).phases if phase.name == "old log-probs").own_bytes
        for one in (plan, after)
    )
    # The logits of all scored positions leave this pass; the next phase makes the peak then.
    assert before - then > 15e9 and found.saved_bytes > 1.8 * GIB


def test_time_is_said_as_it_changes_and_not_at_all_of_what_does_not_run() -> None:
    """Offloading costs seconds even where they are under a hundredth of a long step."""
    long = Plan(response_tokens=8192, validation_response_tokens=8192, micro_batch_size=1)
    found = offered(long)
    words = {title: one.time_words for title, one in found.items() if one.before.runs}
    assert words and "same speed" not in " ".join(words.values())
    offload = words["Offload weights and optimizer to host RAM"]
    assert "slower a step" in offload, offload
    before = estimate(TOO_LARGE)
    said = {one.title: one for one in recommend(before, most=50)}
    for one in said.values():
        assert "faster" not in one.time_words and "slower" not in one.time_words
        runs = one.after.word != "out of memory"
        lead = "step then " if runs else "no step time: it does not run yet"
        assert one.time_words.startswith(lead)
        assert runs or one.step_seconds is not None


def test_no_edit_is_offered_after_which_the_engine_would_not_start() -> None:
    """Lowering its share saves bytes of a plan that fits, and ends it."""
    plan = Plan(model="Qwen/Qwen2.5-7B", gpu_memory_utilization=0.3, gpus=8)
    before = estimate(plan)
    lower = {"gpu_memory_utilization": 0.2}
    assert before.verdict.word == "fits" and estimate(plan.changed(**lower)).blockers
    advice = Advice(before)
    assert any(one.changes == lower and one.worse for one in advice.made)
    phases = {phase.name for phase in before.phases}
    given = [*advice.singles, *(one for name in phases for one in advice.lowering(name))]
    assert given and not any(one.worse for one in given)
