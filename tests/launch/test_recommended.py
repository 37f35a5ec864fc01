"""What a search recommends is launched: the framework's own parser reads each of the three."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.running import Worker, read_by_trl, read_by_verl
from planner.launch.export import export
from planner.plan import Plan
from planner.search import Wish, search
from planner.search.tiers import NAMES

FRAMEWORKS = ("trl", "verl")
FREE = (
    "micro_batch_size", "offload", "optimizer", "gpu_memory_utilization",
    "rollout_tensor_parallel", "max_num_seqs",
)  # fmt: skip


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_all_three_are_accepted(
    framework: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    worker: Worker = request.getfixturevalue(framework)
    plan = Plan(model="Qwen/Qwen2.5-7B", framework=framework, gpu="a100-40gb", gpus=8)
    found = search(plan, Wish(goal="fastest", free=FREE, lora_allowed=True))
    assert {name for one in found.recommendations for name in one.names} >= {*NAMES}
    for one in found.recommendations:
        assert "Exports to" in one.launch
        launch = export(one.plan, framework)
        folder = tmp_path / one.name
        if framework == "trl":
            reply = read_by_trl(worker, folder, launch, one.plan)
        else:
            reply = read_by_verl(worker, folder, launch)
        assert "error" not in reply, (one.name, reply)
    assert any(one.differences for one in found.recommendations)
