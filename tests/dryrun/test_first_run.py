"""The first dry run of a process has what any other one has."""

from __future__ import annotations

import json
import subprocess
import sys

TWICE = """
import json
from planner import catalog
from planner.dryrun.logs.curve import peaks
from planner.dryrun.run.execute import dry_run
from planner.plan import Plan

plan = Plan(
    model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1, sharding="none", finetuning="lora",
    prompts_per_step=1, prompts_per_update=1, micro_batch_size=1, prompt_tokens=16,
    response_tokens=16, base_dtype="fp32", autocast=True,
)
configs = {"policy": dict(catalog.model(plan.model).config)}
runs = [
    {one.phase: one.total_bytes for one in peaks(dry_run(plan, configs))} for _ in range(2)
]
print(json.dumps(runs))
"""


def test_a_package_imported_for_it_leaves_no_tensor_in_it() -> None:
    """peft's classes have tensors of their own: 16 bytes that the first run alone once had."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TWICE], check=True, capture_output=True, text=True
    )
    first, second = json.loads(ended.stdout.splitlines()[-1])
    assert first == second and first
