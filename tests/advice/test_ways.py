"""Make it fit: plans whose right answer is known, and what every way must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.advice import fitting, recommend
from planner.advice.advice import Advice
from planner.advice.edits import Edit
from planner.advice.outcome import outcome_of
from planner.advice.suggestion import Suggestion, Trying, condensed
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.fields import ENGINE_FIELDS
from planner.plan.presets import presets

LONG = {"response_tokens": 8192, "validation_response_tokens": 8192}
BLOCKED = Plan(model="Qwen/Qwen2.5-14B", gpu="a100-40gb", **LONG)
"""Its engine's share holds neither the weights nor one whole sequence."""
SMALL_CARD = Plan(model="Qwen/Qwen3-4B", gpu="rtx-4090", gpus=1)
TOO_LARGE = Plan(micro_batch_size=4, logprob_micro_batch_size=4, gradient_checkpointing="none")


@pytest.fixture(scope="module")
def blocked() -> Advice:
    return Advice(estimate(BLOCKED))


def unlike(one: Suggestion, *fields: str) -> list[str]:
    return [name for name in fields if name in one.changes]


def test_what_blocks_is_mended_by_the_engines_own_fields_and_never_by_lora(
    blocked: Advice,
) -> None:
    assert blocked.outcome.blockers
    found = recommend(estimate(BLOCKED), most=50)
    assert found
    for one in found:
        assert one.unblocks and set(one.changes) <= set(ENGINE_FIELDS)


def test_a_14b_with_8k_responses_keeps_what_was_asked_for_on_eight_small_cards(
    blocked: Advice,
) -> None:
    best = blocked.ways[0]
    assert best.fits and best.keeps and best.cost in ("", "stored in fewer bits")
    asked = ("finetuning", "gpus", "gpu", "model", "prompts_per_step", *LONG)
    assert unlike(best, *asked, "reference") in ([], ["reference"])
    assert best.changes["rollout_tensor_parallel"] > 1
    assert best.after.level("rollout") is not None


def test_every_way_is_what_an_estimate_says_of_it(blocked: Advice) -> None:
    for advice in (blocked, Advice(estimate(TOO_LARGE))):
        assert advice.ways
        for one in advice.ways:
            again = estimate(advice.outcome.plan.changed(**one.changes))
            assert one.after == outcome_of(again)
            assert one.fits == (again.verdict.word == "fits")


def test_no_edit_of_a_way_could_be_left_out(blocked: Advice) -> None:
    best, plan = blocked.ways[0], blocked.outcome.plan
    for edit in best.edits:
        fields = {name: best.changes[name] for name in best.changes if name not in edit.changes}
        without = outcome_of(estimate(plan.changed(**fields))) if fields else blocked.outcome
        slower = (without.step_seconds or 0.0) > (best.step_seconds or 0.0)
        assert not without.fits or slower, edit.title


def test_an_edit_that_is_not_needed_is_dropped_again() -> None:
    needed = Edit(
        title="Checkpoint", kind="memory", changes={"gradient_checkpointing": "full"}
    )
    idle = Edit(title="Eight bits", kind="numbers", changes={"optimizer": "adamw-8bit"})
    trying = Trying(outcome_of(estimate(TOO_LARGE)), estimate)
    both = trying.edited(needed, idle)
    assert both is not None and both.fits
    assert "optimizer" not in fitting._polished(trying, both).changes


LONGER = {"response_tokens": 18_176, "validation_response_tokens": 18_176, "attention": "flash"}
SCORED = {"logprob_micro_batch_size": 32, "logits": "full"}


@pytest.mark.parametrize(
    "changes",
    [
        LONGER,
        SCORED,
        {**LONGER, **SCORED},
        {**LONGER, "micro_batch_size": 4, "logprob_micro_batch_size": 4, "logits": "fused"},
        {**LONGER, "vllm_sleep_level": 0},
        {"gpu_memory_utilization": 0.9},
        {"model": "Qwen/Qwen3-30B-A3B", "gpu_memory_utilization": 0.7},
        {"method": "ppo", "micro_batch_size": 8, "responses_per_prompt": 1, "prompts_per_step": 64},
        {"model": "Qwen/Qwen3-30B-A3B", **LONGER, "max_num_batched_tokens": 65_536},
        {**LONGER, "rollout": "vllm-separate", "rollout_gpus": 4},
        {"rollout": "hf", "response_tokens": 32_768},
    ],
)
def test_what_fills_no_phase_that_is_over_is_not_tried_and_was_never_of_use(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    footprint = estimate(Plan(**changes))
    assert footprint.verdict.word != "fits"
    tried: list[Plan] = []

    def judge(plan: Plan) -> Footprint:
        tried.append(plan)
        return estimate(plan)

    found = [(one.changes, one.after) for one in Advice(footprint, judge).ways]
    few = len(tried)
    monkeypatch.setattr(fitting, "_elsewhere", lambda edit, start: False)
    assert [(one.changes, one.after) for one in Advice(footprint, judge).ways] == found
    every = len(tried) - few
    assert few <= every
    if changes.get("logprob_micro_batch_size") == 4:
        # Two of those, two offloads between phases, the engine's share, cache in fp8, spread
            # and prefill.
        assert every - few == 8


def test_what_a_sleeping_engine_would_give_back_is_tried_where_it_is_much() -> None:
    # A workspace for experts is kept asleep, and grows with the tokens of a prefill.
    few = Edit(title="Few", kind="engine", changes={"max_num_batched_tokens": 2048})
    for model, of_use in (("Qwen/Qwen3-30B-A3B", True), ("Qwen/Qwen2.5-7B", False)):
        found = outcome_of(estimate(Plan(model=model, max_num_batched_tokens=16_384)))
        update = found.level("policy backward")
        assert update is not None and not update.pool_bytes
        over = (update._replace(device_bytes=2 * found.budget_bytes),)
        assert fitting._elsewhere(few, replace(found, levels=over, blockers=())) != of_use


def test_one_24_gb_card_fits_a_4b_by_changing_what_is_trained_or_with_more_cards() -> None:
    ways = Advice(estimate(SMALL_CARD)).ways
    able = [one for one in ways if one.fits]
    assert {one.kind for one in able} == {"training", "GPUs"}
    by_training = next(one for one in able if one.kind == "training")
    assert by_training.changes["finetuning"] == "lora"
    assert "changes what is trained" in by_training.cost
    assert all(not one.fits for one in ways if one.keeps)


def test_host_ram_that_is_short_is_mended_by_offloading_less() -> None:
    plan = Plan(offload="all", host_ram_per_node=100 * 2**30)
    advice = Advice(estimate(plan))
    assert "host RAM" in advice.outcome.blockers[0]
    best = advice.ways[0]
    assert best.fits and best.keeps and best.changes["offload"] != "all"
    assert advice.singles[0].unblocks
    # Beside enough for its middle and not for its upper end it is tight, and mended so, too.
    tight = Advice(estimate(plan.changed(offload="all-between-phases")))
    assert tight.outcome.word == "tight" and tight.ways[0].fits
    assert tight.ways[0].changes["offload"] == "none"


def test_a_plan_that_nothing_starts_has_no_way() -> None:
    plan = Plan(model="Qwen/Qwen2.5-72B", gpu="l4")
    advice = Advice(estimate(plan))
    assert advice.outcome.blockers and advice.ways == ()


def test_a_plan_that_fits_needs_no_way() -> None:
    assert Advice(estimate(Plan())).ways == ()


def test_two_together_are_offered_where_neither_is_enough() -> None:
    plan = Plan(gpus=4, gpu="a100-40gb", micro_batch_size=8, logprob_micro_batch_size=8)
    advice = Advice(estimate(plan))
    assert advice.outcome.word == "out of memory" and not advice.outcome.blockers
    assert not any(one.fits for one in advice.made)
    assert advice.pairs
    for one in advice.pairs:
        assert len(one.edits) == 2
        assert estimate(plan.changed(**one.changes)).verdict.word == "fits"


def test_two_together_are_offered_where_they_ask_less_than_the_one_that_is_enough() -> None:
    """Offloading all is enough and slow; a smaller micro-batch and flash attention are faster."""
    plan = presets()["ppo-7b@1"].plan.changed(gpu="a100-40gb")
    advice = Advice(estimate(plan))
    assert advice.outcome.word == "tight"
    enough = [one for one in advice.made if one.fits and one.keeps]
    kept = [one for one in advice.pairs if one.keeps]
    assert enough and kept and kept == list(advice.pairs[: len(kept)])
    for one in kept:
        assert len(one.edits) == 2
        assert estimate(plan.changed(**one.changes)).verdict.word == "fits"
        assert all((one.step_seconds or 0) < (other.step_seconds or 0) for other in enough)


def test_no_two_are_offered_where_one_is_enough_for_less() -> None:
    advice = Advice(estimate(presets()["grpo-7b@1"].plan.changed(gpu="a100-40gb")))
    assert advice.outcome.word == "tight" and any(one.fits and one.keeps for one in advice.made)
    assert advice.pairs == ()


def test_two_together_of_a_plan_that_fits_are_one_that_makes_room_and_one_that_takes_it() -> None:
    plan = presets()["intuitor-1.5b@1"].plan
    advice = Advice(estimate(plan))
    assert advice.outcome.fits and advice.pairs
    for one in advice.pairs:
        saver, faster = (plan.changed(**edit.changes) for edit in one.edits)
        assert estimate(faster).verdict.word != "fits"
        assert estimate(saver).device_bytes <= estimate(plan).device_bytes
        both = estimate(plan.changed(**one.changes))
        assert both.verdict.word == "fits" and one.keeps
        assert (both.step_seconds or 0) < (advice.outcome.step_seconds or 0)
        names = {phase.name for phase in one.phases()}
        assert names == {phase.name for phase in both.phases}


def test_nothing_is_beyond_a_plan_whose_faster_forms_all_fit() -> None:
    roomy = presets()["grpo-0.5b-24gb@1"].plan.changed(gpu="h200-141gb")
    assert Advice(estimate(roomy)).pairs == ()


def test_a_later_edit_of_the_same_kind_takes_an_earlier_ones_place() -> None:
    two, four = (
        Edit(title=f"Use {n} GPUs", kind="GPUs", changes=changes)
        for n, changes in ((2, {"gpus": 2, "sharding": "fsdp2"}), (4, {"gpus": 4}))
    )
    other = Edit(title="Offload", kind="memory", changes={"offload": "all"})
    found = condensed((two, other, four))
    assert [one.title for one in found] == ["Offload", "Use 4 GPUs"]
    assert found[1].changes == {"gpus": 4, "sharding": "fsdp2"}
