"""Gradients that FSDP reduces in an update's last micro-batch alone, as accelerate has it do.

transformers' Trainer runs every other micro-batch under ``no_sync``. Mistral-7B in fp16 on real
A100s with two micro-batches (accuracy/peaks/rows.json, aadp rows): 36.3, 25.9 and 20.7 GiB are
allocated on two, four and eight GPUs, of which 13.5 are the whole gradients.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from planner import catalog
from planner.dryrun.logs.curve import peaks
from planner.dryrun.run.execute import dry_run
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.frameworks import framework_named

torch.set_num_threads(1)

MODEL = "Qwen/Qwen2.5-0.5B"
CUBLAS_BYTES = 64 * 2**20


def plan_of(framework: str, micro_batches: int, **more: Any) -> Plan:
    return Plan(
        model=MODEL,
        method="sft",
        framework=framework,
        gpus=8,
        sharding="fsdp2",
        prompts_per_step=8 * micro_batches,
        prompts_per_update=8 * micro_batches,
        micro_batch_size=1,
        prompt_tokens=100,
        response_tokens=412,
        batch_shape="full",
        **{"logits": "fused", **more},
    )


def closed(plan: Plan) -> dict[str, int]:
    return {phase.name: phase.requested_bytes for phase in estimate(plan).phases}


@pytest.mark.parametrize(("reduce_dtype", "value_bytes"), [("bf16", 2), ("fp32", 4)])
def test_whole_gradients_wait_for_the_reduction(reduce_dtype: str, value_bytes: int) -> None:
    one, four = (plan_of("trl", count, reduce_dtype=reduce_dtype) for count in (1, 4))
    trained = sum(part.numel() for part in _built().parameters())
    more = closed(four)["policy forward"] - closed(one)["policy forward"]
    assert more == value_bytes * trained


@pytest.mark.parametrize("reduce_dtype", ["bf16", "fp32"])
def test_closed_form_meets_fsdp2_that_reduces_once(reduce_dtype: str) -> None:
    plan = plan_of("trl", 4, reduce_dtype=reduce_dtype)
    policy = {"policy": dict(catalog.model(MODEL).config)}
    found = {peak.phase: peak.total_bytes + CUBLAS_BYTES for peak in peaks(dry_run(plan, policy))}
    expected = closed(plan)
    for phase in ("policy forward", "policy backward", "optimizer step"):
        assert expected[phase] == pytest.approx(found[phase], rel=3e-3), phase


def test_only_a_framework_that_says_so_reduces_once() -> None:
    assert framework_named("trl").reduces_once_an_update
    sharded = closed(plan_of("plain", 4))["policy forward"]
    assert sharded < closed(plan_of("trl", 4))["policy forward"]


def test_the_answer_says_what_unsharded_gradients_take() -> None:
    said = [note for note in estimate(plan_of("trl", 4)).notes if "unsharded gradients" in note]
    assert len(said) == 1 and "0.9 GiB" in said[0]
    for other in (plan_of("trl", 1), plan_of("plain", 4)):
        assert not any("unsharded gradients" in note for note in estimate(other).notes)


def _built() -> torch.nn.Module:
    from transformers import AutoConfig, AutoModelForCausalLM

    values = dict(catalog.model(MODEL).config)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)
