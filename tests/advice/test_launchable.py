"""No advice puts a field in the way of the framework's own script that was none before."""

from __future__ import annotations

import pytest

from planner.advice.advice import Advice
from planner.estimate import estimate
from planner.launch.export import in_the_way
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
