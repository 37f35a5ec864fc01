"""An estimate says beforehand what a launch will refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.__main__ import main
from planner.launch.export import CannotExpress, following, not_launched
from planner.plan import Plan


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"framework": "verl", "reward": "model"}, "reward"),
        ({"framework": "verl", "vllm_sleep_level": 1}, "vllm_sleep_level"),
        ({"framework": "trl", "vllm_sleep_level": 1}, "vllm_sleep_level"),
        ({"framework": "verl", "method": "intuitor"}, "method"),
    ],
)
def test_what_a_launch_refuses_is_said_by_the_estimate(
    given: dict[str, Any], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(**given)
    told = not_launched(plan, given.keys())
    with pytest.raises(CannotExpress) as refusal:
        following(plan, plan.framework, given.keys())
    assert told == tuple(f"launch refuses {one.sentence}" for one in refusal.value.obstacles)
    assert len(told) == 1 and told[0].startswith(f"launch refuses {field}: ")
    query = "&".join(f"{name}={value}" for name, value in given.items())
    main(["estimate", query])
    assert f"warning: {told[0]}" in capsys.readouterr().out
    main(["estimate", query, "--json"])
    assert json.loads(capsys.readouterr().out)["not_launched"] == list(told)


@pytest.mark.parametrize("framework", ["plain", "trl", "verl"])
def test_nothing_is_said_of_what_nobody_chose(framework: str) -> None:
    """What follows the framework is no refusal, nor is a framework without an exporter."""
    assert not_launched(Plan(framework=framework), {"framework"}) == ()
    assert not_launched(Plan(method="dpo"), ()) == ()
