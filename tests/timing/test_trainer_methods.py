"""Every method, sharding and offload has a time, and a sweep has the same as single plans."""

from __future__ import annotations

from typing import Any

import pytest

from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.presets import presets
from planner.sweeps.table import sweep


@pytest.mark.parametrize("key", presets())
def test_every_phase_of_a_preset_has_its_causes(key: str) -> None:
    footprint = estimate(presets()[key].plan)
    for phase in footprint.phases:
        if phase.per_step and phase.seconds is not None:
            assert phase.times, phase.name
            assert phase.seconds == pytest.approx(sum(term.seconds for term in phase.times))
            assert all(term.seconds >= 0 and term.source for term in phase.times)
    assert footprint.step_seconds is not None


BASE: dict[str, Any] = {
    "method": "sft",
    "model": "Qwen/Qwen2.5-0.5B",
    "gpus": 8,
    "prompts_per_step": 64,
    "prompts_per_update": 64,
    "prompt_tokens": 256,
    "response_tokens": 512,
}
PLANS: dict[str, dict[str, Any]] = {
    "mixture": {"model": "Qwen/Qwen3-30B-A3B"},
    "no layers of its own derived": {"model": "Qwen/Qwen3.5-4B", "batch_shape": "padded"},
    "adapters": {"finetuning": "lora"},
    "ddp": {"sharding": "ddp"},
    "zero3": {"sharding": "zero3", "offload": "all"},
    "hybrid": {"sharding": "fsdp2", "shard_size": 4},
    "offloaded activations": {"gradient_checkpointing": "full", "activation_offload": True},
    "eager": {"attention": "eager"},
    "dpo": {"method": "dpo", "reference": "cached-logprobs"},
    "over slots": {"gpu": "l40s"},
}


def asked(name: str, **changes: Any) -> Plan:
    return Plan(**{**BASE, **PLANS[name], **changes})


@pytest.mark.parametrize("name", PLANS)
def test_a_sweep_takes_as_long_as_its_plans(name: str) -> None:
    axes = {"micro_batch_size": [1, 4], "response_tokens": [128, 640], "gpus": [8, 16]}
    table = sweep(asked(name), axes)
    for row in table.itertuples():
        changes = {field: int(getattr(row, field)) for field in axes}
        alone = estimate(asked(name).changed(**changes)).step_seconds
        assert row.step_seconds == pytest.approx(alone, rel=1e-9)
        assert alone is not None and alone > 0


def test_a_time_says_whose_kernels_it_rests_on() -> None:
    own, lent = (
        next(phase for phase in estimate(asked("ddp", gpu=card)).phases if phase.times)
        for card in ("h100-80gb", "rtx-4090")
    )
    assert own.times[0].evidence.startswith("kernels measured on this card")
    assert lent.times[0].evidence.startswith("shares borrowed from l40s")
