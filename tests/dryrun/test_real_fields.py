"""Fields that real runs have: the closed form against the step on tensors without data."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from planner.dryrun.ask.answer import answer
from planner.dryrun.run import worker
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan

torch.set_num_threads(1)

SIZE: dict[str, Any] = {"prompt_tokens": 96, "response_tokens": 160, "batch_shape": "full"}
BATCH: dict[str, Any] = {"prompts_per_step": 2, "responses_per_prompt": 2, "micro_batch_size": 1}
LORA: dict[str, Any] = {"finetuning": "lora", "lora_rank": 8}
HALF: dict[str, Any] = {"master_dtype": "none", "gradient_dtype": "bf16"}


def planned(**changes: Any) -> Plan:
    base = {"model": "Qwen/Qwen2.5-0.5B", "method": "grpo", "gpus": 1, "rollout": "hf"}
    return Plan(**{**base, **SIZE, **BATCH, **changes})


def peaks(found: Footprint) -> dict[str, int]:
    return {phase.name: int(phase.requested_bytes) for phase in found.phases}


def compared(plan: Plan, *, within: float = 1e-3) -> dict[str, int]:
    """The estimate's peaks, after each that a dry run has was found to be the dry run's."""
    found = answer(plan, worker.execute({"plan": plan.model_dump()})["result"]).comparisons
    dry = {one.phase: one.dry_bytes for one in found if one.dry_bytes is not None}
    own = peaks(estimate(plan))
    assert {"old log-probs", "policy forward", "policy backward"} <= dry.keys()
    for name, size in dry.items():
        assert own[name] == pytest.approx(size, rel=within), name
    return own


def test_a_step_after_every_micro_batch_leaves_no_gradients_for_the_next() -> None:
    plan = planned(**LORA)
    plain, each = peaks(estimate(plan)), compared(plan.changed(optimizer_step="micro-batch"))
    adapters = 4 * 8 * 24 * (4 * 896 + 2 * (896 + 128) + 3 * (896 + 4864))
    assert plain["policy forward"] - each["policy forward"] == adapters
    assert plain["optimizer step"] == each["optimizer step"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {**HALF, "gradient_checkpointing": "none", "logits": "chunked", "micro_batch_size": 2},
        {**LORA, "micro_batch_size": 2},
        {"gpus": 2, "prompts_per_step": 4, "rollout": "none", "method": "sft"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())) or "plain",
)
def test_an_optimizer_in_the_backward_keeps_no_gradients(changes: dict[str, Any]) -> None:
    if changes.get("method") == "sft":
        changes = {**changes, "responses_per_prompt": 1}
    plan = planned(**{**changes, "optimizer_step": "in-backward"})
    found = answer(plan, worker.execute({"plan": plan.model_dump()})["result"]).comparisons
    own = peaks(estimate(plan))
    assert "optimizer step" not in own
    for one in found:
        if one.dry_bytes is not None:
            assert own[one.phase] == pytest.approx(one.dry_bytes, rel=1e-3), one.phase
    waiting = peaks(estimate(plan.changed(optimizer_step="micro-batch")))
    assert own["policy forward"] == waiting["policy forward"]
    if not changes:  # others are highest before most gradients are there
        assert own["policy backward"] < waiting["policy backward"]
