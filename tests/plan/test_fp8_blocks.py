"""An engine's GPUs hold whole blocks of fp8 weights, or vLLM does not start."""

from __future__ import annotations

from typing import Any

import pytest

from planner import sweep
from planner.plan import Plan, try_plan

FP8: dict[str, Any] = {
    "method": "grpo", "framework": "verl", "gpu": "h100-80gb", "gpus": 16,
    "rollout_quantization": "fp8",
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "over", "whole_experts", "starts"),
    [
        # moe_intermediate_size 768: slices of 384, 192 and 96 (issues 17569 and 58152 of vLLM).
        ("Qwen/Qwen3-30B-A3B", 1, False, True),
        ("Qwen/Qwen3-30B-A3B", 2, False, True),
        ("Qwen/Qwen3-30B-A3B", 4, False, False),
        ("Qwen/Qwen3-30B-A3B", 4, True, True),
        # intermediate_size 18,944: slices of 4,736 are 37 blocks, of 2,368 no whole number.
        ("Qwen/Qwen2.5-7B", 4, False, True),
        ("Qwen/Qwen2.5-32B", 8, False, True),
        ("Qwen/Qwen2.5-0.5B", 2, False, False),
        # Heads of keys and values, 64 wide: two a GPU, then one.
        ("meta-llama/Llama-3.2-1B", 4, False, True),
        ("meta-llama/Llama-3.2-1B", 8, False, False),
    ],
)
def test_slices_are_whole_blocks(
    model: str, over: int, whole_experts: bool, starts: bool
) -> None:
    fields = {
        **FP8,
        "model": model,
        "rollout_tensor_parallel": over,
        "rollout_expert_parallel": whole_experts,
    }
    plan, problems = try_plan(fields)
    assert (plan is not None) == starts
    if not starts:
        assert problems[0].field == "rollout_tensor_parallel"
        assert "blocks of 128" in problems[0].message
    assert try_plan({**fields, "rollout_quantization": "none"})[0] is not None


def test_a_sweep_leaves_them_out() -> None:
    plan = Plan(**FP8, model="Qwen/Qwen3-30B-A3B", rollout_tensor_parallel=2)
    table = sweep(plan, {"rollout_tensor_parallel": [1, 2, 4], "response_tokens": [512, 1024]})
    assert set(table[table["valid"]]["rollout_tensor_parallel"]) == {1, 2}
