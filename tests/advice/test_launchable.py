"""No advice puts a field in the way of the framework's own script that was none before."""

from __future__ import annotations

import pytest

from planner.advice.advice import Advice
from planner.estimate import estimate
from planner.launch.export import in_the_way
from planner.plan import Plan
from planner.plan.presets import presets


@pytest.mark.parametrize("key", ["grpo-lora-1gpu@1", "ppo-7b@1", "grpo-0.5b-24gb@1"])
def test_advice_leaves_a_plan_that_its_framework_can_launch(key: str) -> None:
    plan = presets()[key].plan
    assert not in_the_way(plan)
    footprint = estimate(plan)
    free, held = Advice(footprint), Advice(footprint, refused=in_the_way)
    given = [*held.made, *held.faster, *held.ways, *([held.used] if held.used else [])]
    assert given
    for one in given:
        assert not in_the_way(one.after.plan), one.title
    without = [one for one in (*free.made, *free.faster) if in_the_way(one.after.plan)]
    assert without, "there is something that the framework's script could not do"


def test_a_plan_that_nobody_can_launch_still_gets_advice() -> None:
    plan = presets()["grpo-7b@1"].plan
    assert "method" in in_the_way(plan)
    assert Advice(estimate(plan), refused=in_the_way).faster


def test_advice_keeps_to_what_trl_sets_by_itself() -> None:
    # trl 1.16.0, grpo_trainer.py, line 1124: a device's batch, the engine's GPUs and all rounds.
    plan = Plan(
        **{"method": "grpo", "framework": "trl", "model": "Qwen/Qwen2.5-7B", "gpus": 8},
        **{"gpu": "h100-80gb", "sharding": "ddp", "prompts_per_step": 64, "max_num_seqs": 64},
    )
    found = Advice(estimate(plan), refused=in_the_way)
    spread = [one for one in found.made if "rollout_tensor_parallel" in one.changes]
    assert spread and found.ways
    for one in (*found.made, *found.ways):
        after = one.after.plan
        per_gpu = after.prompts_per_step * after.responses_per_prompt // after.gpus
        assert after.max_num_seqs == per_gpu * after.rollout_tensor_parallel, one.title
        assert plan.changed(**one.changes) == after
    assert "fewer sequences at once" not in [one.title for one in found.idle]


def test_advice_leaves_a_number_that_a_plan_has_otherwise() -> None:
    plan = Plan(
        **{"method": "grpo", "framework": "trl", "model": "Qwen/Qwen2.5-7B", "gpus": 8},
        **{"gpu": "h200-141gb", "finetuning": "lora", "prompts_per_step": 64},
    )
    assert plan.max_num_seqs == 256
    found = Advice(estimate(plan), refused=in_the_way)
    given = (*found.made, *found.faster)
    assert given and all(one.after.plan.max_num_seqs == 256 for one in given)
