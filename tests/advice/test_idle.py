"""What does nothing here is said so only where an estimate leaves the peak, and why is true."""

from __future__ import annotations

import pytest

from planner.advice.advice import Advice
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.presets import presets
from planner.units import GIB

GRADE = presets()["doc-001-legacy@1"].plan
BACK = Plan(gpu_memory_utilization=0.1, gpus=2, gpu="b200-180gb")
"""Its update decides, in which an optimizer that was offloaded is back."""


@pytest.mark.parametrize("plan", [Plan(), GRADE, BACK])
def test_what_is_named_leaves_the_peak_where_it_was(plan: Plan) -> None:
    before = estimate(plan).device_bytes
    found = Advice(estimate(plan)).idle
    assert found
    for one in found:
        after = estimate(plan.changed(**one.suggestion.changes)).device_bytes
        assert abs(after - before) <= 0.01 * before, one.title


def test_top_k_does_nothing_to_grade() -> None:
    reasons = {one.title: one.reason for one in Advice(estimate(GRADE)).idle}
    assert "activations stay" in reasons["keeping the top 256 tokens"]


def test_an_optimizer_that_is_back_is_said_to_be() -> None:
    advice = Advice(estimate(BACK))
    assert advice.outcome.worst == "policy backward"
    reasons = {one.title: one.reason for one in advice.idle}
    title = "optimizer offload between phases"
    assert reasons[title].startswith("it is back on the GPU in policy backward, which sets")
    optimizer = estimate(BACK.changed(offload="optimizer-between-phases"))
    same = estimate(BACK).worst.by_category()["optimizer"]
    assert optimizer.worst.by_category()["optimizer"] == same


def test_one_judgement_says_what_lowers_the_peak_and_what_has_no_effect() -> None:
    """Of a plan whose engine does not start, too: LoRA saves 25 GiB there and starts nothing."""
    plan = Plan(model="Qwen/Qwen2.5-14B", gpu="a100-40gb", response_tokens=8192)
    advice = Advice(estimate(plan))
    assert advice.outcome.blockers
    worst = advice.outcome.worst
    lowers = {str(dict(one.changes)): one for one in advice.lowering(worst)}
    idle = {str(dict(one.suggestion.changes)): one for one in advice.idle}
    assert lowers and idle and not lowers.keys() & idle.keys()
    lora = {"finetuning": "lora", "reference": "adapter-disabled"}
    assert lowers[str(lora)].saved_bytes > 20 * GIB and not lowers[str(lora)].unblocks
    assert estimate(plan.changed(**lora)).blockers
    for one in idle.values():
        assert one.suggestion.peak == "same"
        assert "too few for its weights" in one.reason


@pytest.mark.parametrize("plan", [Plan(), GRADE, BACK, Plan(gpus=64, micro_batch_size=1)])
def test_no_edit_both_lowers_the_peak_and_has_no_effect(plan: Plan) -> None:
    advice = Advice(estimate(plan))
    idle = {str(dict(one.suggestion.changes)) for one in advice.idle}
    given = (*advice.lowering(advice.outcome.worst), *advice.singles)
    assert given and all(one.peak == "less" or one.fits for one in given)
    assert not idle & {str(dict(one.changes)) for one in given if not one.unblocks}


def test_what_is_on_and_does_nothing_is_named_too() -> None:
    plan = Plan(gpus=64, micro_batch_size=1)
    found = {one.title: one for one in Advice(estimate(plan)).idle if one.on}
    assert "gradient checkpointing" in found
    without = estimate(plan.changed(gradient_checkpointing="none"))
    assert without.device_bytes <= 1.01 * estimate(plan).device_bytes
