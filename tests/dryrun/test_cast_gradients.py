"""Autocast's gradients outside the layers: closed form beside dry runs where they are the peak."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from evidence import STEPS, Evidence
from planner import catalog
from planner.dryrun.logs.curve import peaks
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.plan import Plan

torch.set_num_threads(1)

CUBLAS_BYTES = 64 * 2**20
TIED, UNTIED = "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"
ONCE = {"prompts_per_step": 1, "prompts_per_update": 1}
PLANS: list[tuple[dict[str, Any], str]] = [
    ({"model": TIED, "method": "sft"}, "embedding's backward"),
    ({"model": TIED, "method": "sft", **ONCE}, "embedding's backward"),
    ({"model": UNTIED, "method": "sft"}, "head's gradient cast"),
    ({"model": UNTIED, "method": "grpo", "gradient_checkpointing": "none"}, "head's gradient cast"),
    ({"model": "openai-community/gpt2", "method": "ppo"}, "embedding's backward"),
    ({"model": "Qwen/Qwen3.5-2B", "method": "sft"}, "embedding's backward"),
]


EVIDENCE = Evidence(
    "cast-gradients",
    of=("planner.dryrun.run.execute", "planner.dryrun.logs.curve", *STEPS),
    kinds={str(values): values["method"] for values, _ in PLANS},
)


@pytest.mark.parametrize(("values", "instant"), PLANS)
def test_the_last_gradients_of_autocast_are_as_wide_as_their_weights(
    values: dict[str, Any], instant: str
) -> None:
    plan = Plan(
        gpu="h100-80gb",
        gpus=1,
        sharding="none",
        dtype="bf16",
        master_dtype="fp32",
        prompt_tokens=64,
        response_tokens=64,
        **{"prompts_per_step": 8, "prompts_per_update": 8, **values},
    )
    policy = dict(catalog.model(plan.model).config)
    configs = {"policy": policy, "critic": policy, "reward": policy}
    dry = EVIDENCE.figures(
        str(values),
        [plan.model_dump(), configs],
        lambda: {peak.phase: peak.total_bytes for peak in peaks(dry_run(plan, configs))},
    )
    found = {phase: size + CUBLAS_BYTES for phase, size in dry.items()}
    closed = {phase.name: phase for phase in estimate(plan).phases}["policy backward"]
    assert closed.instant == instant
    assert closed.requested_bytes == pytest.approx(found["policy backward"], rel=1e-4)
