"""Eager attention of a single row: values that are a view of one projection keep all of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dry_peaks import UPDATE, meets_dry_run
from planner.plan import Plan

torch.set_num_threads(1)

CUBLAS_BYTES = 64 * 2**20
PYTHIA, PHI = "EleutherAI/pythia-160m", "microsoft/Phi-3-mini-4k-instruct"
ADAPTERS = {"finetuning": "lora", "lora_targets": "all-linear"}
PLANS: list[dict[str, Any]] = [
    {"model": PYTHIA, "method": "sft"},
    {"model": PYTHIA, "method": "sft", **ADAPTERS, "master_dtype": "fp32"},
    {"model": PYTHIA, "method": "grade", **ADAPTERS, "response_tokens": 6},
    {"model": PHI, "method": "sft", **ADAPTERS},
    {"model": PHI, "method": "grpo", "micro_batch_size": 2},
    # One shared or repeated head is copied in any case.
    {"model": "microsoft/Phi-4-mini-instruct", "method": "sft", **ADAPTERS},
]


def plan_of(values: dict[str, Any]) -> Plan:
    given = {"master_dtype": "none", "micro_batch_size": 1, "response_tokens": 256, **values}
    return Plan(
        gpu="h100-80gb",
        gpus=1,
        sharding="none",
        attention="eager",
        gradient_checkpointing="none",
        dtype="bf16",
        prompt_tokens=256,
        prompts_per_step=4,
        prompts_per_update=4,
        **given,
    )


@pytest.mark.parametrize("values", PLANS, ids=lambda v: f"{v['method']} {v['model']}")
def test_closed_form_meets_the_dry_run(values: dict[str, Any]) -> None:
    plan = plan_of(values)
    meets_dry_run(plan, phases=UPDATE)
