"""Dropout of adapters: the closed form against the step on tensors without data."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dry_peaks import meets_dry_run
from planner.estimate import estimate
from planner.plan import Plan

torch.set_num_threads(1)

SIZE: dict[str, Any] = {"prompt_tokens": 128, "response_tokens": 128, "batch_shape": "full"}
BATCH: dict[str, Any] = {"prompts_per_step": 2, "responses_per_prompt": 2, "micro_batch_size": 2}


@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_every_phase_of_a_grpo_step_is_the_dry_runs(checkpointing: str) -> None:
    plain = Plan(
        model="Qwen/Qwen2.5-0.5B",
        method="grpo",
        gpus=1,
        rollout="hf",
        finetuning="lora",
        gradient_checkpointing=checkpointing,
        **SIZE,
        **BATCH,
    )
    plan = plain.changed(lora_dropout=0.1)
    own = meets_dry_run(
        plan,
        within=1e-5,
        phases=("rollout", "old log-probs", "policy forward", "policy backward"),
    )
    without = {phase.name: phase.requested_bytes for phase in estimate(plain).phases}
    # Generation drops nothing. Seven adapters of 24 layers keep a mask of bytes each, but for the
    # first layer's queries, keys and values: what they read needs no gradient.
    assert own["rollout"] == without["rollout"]
    if checkpointing == "none":
        masks = 2 * 256 * (24 * (6 * 896 + 4864) - 3 * 896)
        assert own["policy forward"] - without["policy forward"] == masks
