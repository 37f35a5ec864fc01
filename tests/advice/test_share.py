"""The engine's share and spread, chosen together, and what a share holds in words."""

from __future__ import annotations

from typing import Any

import pytest

from planner.advice import share
from planner.advice.advice import Advice
from planner.advice.outcome import outcome_of
from planner.advice.suggestion import Trying
from planner.estimate import estimate
from planner.plan import Plan

WAITING = Plan(
    response_tokens=16_384, validation_response_tokens=16_384, gpu_memory_utilization=0.4,
    logits="fused",
)  # fmt: skip


@pytest.mark.parametrize("over", [1, 2, 4])
def test_the_share_is_the_largest_that_fits_or_that_is_of_use(over: int) -> None:
    found = share.chosen(Trying(outcome_of(estimate(WAITING)), estimate), over)
    assert found is not None and found.fits
    plan = WAITING.changed(**found.changes)
    own = plan.gpu_memory_utilization
    more = plan.changed(gpu_memory_utilization=round(own + 0.05, 2))
    assert not share.room_of(plan).waits or estimate(more).verdict.word != "fits"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gpu_memory_utilization": 0.2, "logits": "fused", "max_num_seqs": 1024},
        {"vllm_sleep_level": 0, "logits": "fused", "micro_batch_size": 1},
        {"rollout": "vllm-separate", "rollout_gpus": 4, "gpu_memory_utilization": 0.5},
        {"model": "Qwen/Qwen3-30B-A3B", "gpus": 16, "gpu_memory_utilization": 0.5},
        {"response_tokens": 20_000, "validation_response_tokens": 20_000},
    ],
)
def test_no_share_between_those_tried_is_better(changes: dict[str, Any]) -> None:
    plan = Plan(**changes)
    trying = Trying(outcome_of(estimate(plan)), estimate)
    for over in share.spreads(plan):
        each = [
            estimate(plan.changed(rollout_tensor_parallel=over, gpu_memory_utilization=one))
            for one in share.SHARES
        ]
        able = [one.plan for one in each if one.verdict.word == "fits" and not one.blockers]
        found = share.chosen(trying, over)
        best = plan if found is None else found.after.plan
        assert (best in able) or (found is None and not able)
        if able and share.room_of(best).waits:
            assert best == able[-1]


def test_spreads_divide_gpus_and_heads() -> None:
    assert [*share.spreads(Plan(gpus=12, gpus_per_node=4, prompts_per_step=48,
                                prompts_per_update=48))] == [1, 2, 4]  # fmt: skip
    # Qwen2.5-0.5B has 14 heads.
    assert [*share.spreads(Plan(model="Qwen/Qwen2.5-0.5B"))] == [1, 2]


def test_every_way_to_start_starts_and_a_smaller_share_would_not() -> None:
    plan = Plan(model="Qwen/Qwen2.5-32B", gpu_memory_utilization=0.3)
    assert not share.room_of(plan).starts
    ways = [*share.starting(plan)]
    assert len(ways) == 4
    for made in ways:
        changes = {name: value for edit in made for name, value in edit.changes.items()}
        changed = plan.changed(**changes)
        assert share.room_of(changed).starts and not estimate(changed).blockers
        less = round(changed.gpu_memory_utilization - 0.05, 2)
        if "gpu_memory_utilization" in changes:
            assert not share.room_of(changed.changed(gpu_memory_utilization=less)).starts


def test_words_say_sequences_preemption_and_the_worst_of_waking_up() -> None:
    advice = Advice(estimate(WAITING))
    room = share.room_of(WAITING)
    said = advice.share_words(lambda size: f"{size / 2**30:.1f} GiB")
    assert room.waits and f"KV cache for {room.holds:,} full-length sequence" in said
    assert "preempted" in said
    waking = [one for one in estimate(WAITING).phases if one.name in ("rollout", "weight sync")]
    assert f"up to {max(one.high_bytes for one in waking) / 2**30:.1f} GiB" in said


def test_a_plan_without_an_engine_has_no_share() -> None:
    plan = Plan(method="sft")
    assert Advice(estimate(plan)).share == ()
    assert Advice(estimate(plan)).share_words(str) == ""
