"""Stages leave nothing better out: the winner of a search is that of the whole space."""

from __future__ import annotations

from typing import Any

import pytest

from planner.plan import Plan
from planner.search.tiers import NAMES
from planner.search.wish import Wish
from search.whole import staged, whole

SMALL: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-14B",
    "method": "grpo",
    "gpu": "a100-40gb",
    "gpus": 8,
    "response_tokens": 8192,
}
JOINT = ("micro_batch_size", "offload", "optimizer", "rollout_tensor_parallel", "enforce_eager")
CASES = {
    "an engine that must share": (
        {**SMALL, "framework": "verl", "gpu_memory_utilization": 0.8},
        Wish(
            goal="fastest",
            free=(
                "micro_batch_size",
                "offload",
                "optimizer",
                "rollout_tensor_parallel",
                "enforce_eager",
            ),
        ),
    ),
    "an engine that never sleeps": (
        {"model": "Qwen/Qwen2.5-0.5B", "gpu": "rtx-4090", "gpus": 1, "max_num_seqs": 64},
        Wish(
            goal="largest-batch",
            free=("micro_batch_size", "gradient_checkpointing", "vllm_sleep_level"),
        ),
    ),
    "how many GPUs": (
        {"model": "Qwen/Qwen2.5-7B", "framework": "verl", "gpu": "a100-80gb"},
        Wish(goal="fewest-gpus", max_gpus=16, free=("offload", "rollout_tensor_parallel")),
    ),
    "rows or a budget of tokens, on how many GPUs": (
        {"model": "Qwen/Qwen2.5-1.5B", "framework": "verl", "gpu": "l40s"},
        Wish(
            goal="fastest",
            max_gpus=16,
            free=(
                "micro_batch_size",
                "logprob_micro_batch_size",
                "max_tokens_per_micro_batch",
                "enforce_eager",
            ),
        ),
    ),
    "how long": (
        {"model": "Qwen/Qwen3-4B", "gpu": "h100-80gb", "gpus": 4, "logits": "fused"},
        Wish(goal="longest", free=("activation_offload", "rollout_tensor_parallel")),
    ),
    "which card": (
        {"model": "Qwen/Qwen2.5-7B", "gpu": "a100-80gb", "gpus": 4},
        Wish(
            goal="cheapest",
            cards=("l40s", "h100-80gb"),
            free=("gradient_checkpointing", "enforce_eager"),
        ),
    ),
    "no engine": (
        {"model": "Qwen/Qwen2.5-7B", "method": "sft", "gpu": "a100-80gb", "gpus": 4},
        Wish(goal="cheapest", free=("micro_batch_size", "sharding", "gradient_checkpointing")),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_winner_is_that_of_the_whole_space(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what comes after it, which would hide what the pairs leave out."""
    monkeypatch.setattr("planner.search.staged.EDITS", 0)
    monkeypatch.setattr("planner.search.staged.DIVIDED", 0)
    fields, wish = CASES[case]
    plan = Plan(**fields)
    found, all_of_it = staged(plan, wish), whole(plan, wish)
    for name in NAMES:
        ours, best = found.winner(name), all_of_it.winner(name)
        assert (ours is None) == (best is None), name
        if ours is not None and best is not None:
            assert ours.line == best.line, (name, ours.changes, best.changes)
    assert any(all_of_it.winner(name) for name in NAMES), "the case says nothing"
