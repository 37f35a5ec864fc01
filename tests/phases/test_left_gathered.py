"""What forwards without gradient leave gathered, beside verl's own step.

The bytes are of dry runs by verl 0.9.1's own code (``accuracy.framework_grid.GRIDS`` runs any plan
so), which equal its real runs on a CPU (docs/memory-notes.md, finding 14).
"""

from __future__ import annotations

from typing import Any

import pytest

from planner import Plan, estimate

VERL: dict[str, Any] = {
    "method": "grpo", "framework": "verl", "gpu": "h100-80gb", "gpus": 64, "sharding": "fsdp2",
    "reshard_after_forward": False, "kl": "none", "prompt_tokens": 64, "response_tokens": 64,
    "responses_per_prompt": 2, "gradient_checkpointing": "none", "attention": "flash",
}  # fmt: skip
ONE_MICRO_BATCH: dict[str, Any] = {
    **VERL, "model": "allenai/Olmo-3-1025-7B", "optimizer": "sgd", "temperature": 0.7,
    "micro_batch_size": 1, "logprob_micro_batch_size": 1, "batch_shape": "full", "shard_size": 8,
    "prompts_per_update": 32, "prompts_per_step": 32,
}  # fmt: skip
SOFT_CAP: dict[str, Any] = {
    **VERL, "model": "google/gemma-2-2b", "finetuning": "lora", "master_dtype": "none",
    "micro_batch_size": 4, "logprob_micro_batch_size": 2, "batch_shape": "packed",
    "prompts_per_update": 640, "prompts_per_step": 1280, "entropy": True, "temperature": 1.0,
    "optimizer": "adamw-fused",
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "name", "dry_bytes"),
    [
        (ONE_MICRO_BATCH, "policy forward", 19_428_943_186),
        (SOFT_CAP, "old log-probs", 5_836_270_178),
    ],
    ids=["nothing arrives", "two of the logits"],
)
def test_a_phase_is_what_verls_own_step_made(
    fields: dict[str, Any], name: str, dry_bytes: int
) -> None:
    [phase] = [phase for phase in estimate(Plan(**fields)).phases if phase.name == name]
    cublas = sum(int(t.bytes) for t in phase.terms if t.name == "cuBLAS workspaces")
    assert phase.requested_bytes - cublas == pytest.approx(dry_bytes, rel=2e-3)


def test_weights_arrive_for_a_second_micro_batch() -> None:
    """The first has found everything whole, and its backward has let go of it."""
    more = {**ONE_MICRO_BATCH, "prompts_per_update": 64, "prompts_per_step": 64}
    peaks = [
        next(one for one in estimate(Plan(**fields)).phases if one.name == "policy forward")
        for fields in (ONE_MICRO_BATCH, more)
    ]
    assert "all-gather" in peaks[1].instant
    assert peaks[1].requested_bytes - peaks[0].requested_bytes > 7e9 / 32 * 2  # a layer in bf16
