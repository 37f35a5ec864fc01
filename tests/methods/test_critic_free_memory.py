"""RLOO and REINFORCE++ in closed form: beside dry runs, what is kept, and on the rungs above."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dry_peaks import dry_peaks, meets_dry_run
from planner.estimate import estimate
from planner.plan import Plan, try_plan
from planner.plan.relevance import without_effect
from planner.sweeps.table import sweep

torch.set_num_threads(1)

LORA: dict[str, Any] = {
    "finetuning": "lora",
    "lora_targets": "q_proj,v_proj",
    "reference": "adapter-disabled",
}
SHARDED: dict[str, Any] = {
    "gpus": 8,
    "sharding": "fsdp2",
    "prompts_per_step": 16,
    "rollout": "vllm-colocated",
    "rollout_gpus": 0,
    "model": "meta-llama/Llama-3.2-1B",
}
CHECKPOINTED: dict[str, Any] = {"gradient_checkpointing": "full"}
HALF: dict[str, Any] = {"master_dtype": "none"}
NO_KL: dict[str, Any] = {"kl": "none", "reference": "none"}
GROUP: dict[str, Any] = {"reinforce_baseline": "group"}


def plan_of(method: str, **changes: Any) -> Plan:
    """Four sequences a step on one training GPU."""
    values: dict[str, Any] = {
        "model": "Qwen/Qwen2.5-0.5B",
        "method": method,
        "gpu": "h100-80gb",
        "gpus": 2,
        "rollout": "vllm-separate",
        "rollout_gpus": 1,
        "sharding": "none",
        "prompt_tokens": 128,
        "response_tokens": 384,
        "prompts_per_step": 2,
        "responses_per_prompt": 2,
        "micro_batch_size": 2,
        "logprob_micro_batch_size": 2,
        "batch_shape": "full",
        "gradient_checkpointing": "none",
    }
    return Plan(**{**values, **changes})


PLANS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rloo", {}),
    ("rloo", {**HALF, "batch_shape": "padded", "kl": "loss", "reward": "model"}),
    ("rloo", {**LORA, **CHECKPOINTED, "batch_shape": "packed", "logits": "full"}),
    ("rloo", {**SHARDED, **NO_KL, "logits": "fused"}),
    ("rloo", {**SHARDED, "prompts_per_step": 2, "responses_per_prompt": 8, "micro_batch_size": 1}),
    ("reinforce++", {**GROUP, "logits": "chunked"}),
    ("reinforce++", {"responses_per_prompt": 1, "prompts_per_step": 4, "kl": "loss"}),
    ("reinforce++", {**HALF, **NO_KL, "batch_shape": "packed", "entropy": True}),
    ("reinforce++", {**LORA, "batch_shape": "padded"}),
    ("reinforce++", {**SHARDED, **GROUP, **LORA, **CHECKPOINTED, "kl": "loss"}),
    ("reinforce++", {**SHARDED, "reference": "offloaded"}),
)


@pytest.mark.parametrize(("method", "changes"), PLANS, ids=str)
@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
def test_every_phase_is_what_the_dry_run_says(method: str, changes: dict[str, Any]) -> None:
    plan = plan_of(method, **changes)
    scored = {"reference log-probs"} if plan.kl != "none" else set()
    scored |= {"reward"} if plan.reward == "model" else set()
    update = {"old log-probs", "policy forward", "policy backward", "optimizer step"}
    assert dry_peaks(plan).keys() == update | scored
    meets_dry_run(plan, within=5e-4)


@pytest.mark.parametrize(("method", "changes"), PLANS, ids=str)
def test_a_token_keeps_its_log_probs_and_its_advantage(
    method: str, changes: dict[str, Any]
) -> None:
    """4 bytes a number for each response token of the GPU's share of a step."""
    plan = plan_of(method, **changes)
    sequences = plan.prompts_per_step * plan.responses_per_prompt // (plan.gpus - plan.rollout_gpus)
    step = next(phase for phase in estimate(plan).phases if phase.name == "optimizer step")
    kept = {t.name: t.bytes for t in step.terms if t.category == "logits" and t.role == "policy"}
    assert set(kept) == {"old log-probs", "advantages"} | (
        {"reference log-probs"} if plan.kl != "none" else set()
    )
    assert set(kept.values()) == {sequences * 384 * 4}


def test_the_baseline_moves_no_byte_and_no_second() -> None:
    plan = plan_of("reinforce++", **SHARDED)
    one, other = (estimate(plan.changed(reinforce_baseline=each)) for each in ("none", "group"))
    assert one.device_bytes == other.device_bytes and one.step_seconds == other.step_seconds


@pytest.mark.parametrize("method", ["rloo", "reinforce++"])
def test_it_is_grpo_with_its_kl_term_elsewhere(method: str) -> None:
    """Why version 1 of links could plan it as GRPO."""
    plan = plan_of(method, **SHARDED, kl="loss")
    one, other = estimate(plan), estimate(plan.changed(method="grpo"))
    assert one.device_bytes == other.device_bytes and one.step_seconds == other.step_seconds


def test_what_nobody_set_is_what_the_method_has() -> None:
    for method in ("rloo", "reinforce++"):
        plan = Plan(method=method)
        assert (plan.kl, plan.critic, plan.reference) == ("reward", "none", "copy")
        assert plan.responses_per_prompt == 8


def test_one_response_is_enough_without_a_group() -> None:
    one = {"method": "reinforce++", "responses_per_prompt": 1}
    assert try_plan(one)[0] is not None
    for values in ({**one, **GROUP}, {**one, "method": "rloo"}):
        plan, problems = try_plan(values)
        assert plan is None and {problem.field for problem in problems} == {"responses_per_prompt"}
    _, problems = try_plan({"method": "grpo", **GROUP})
    assert [(p.field, p.message) for p in problems] == [
        ("reinforce_baseline", "Only REINFORCE++ has this setting.")
    ]
    assert "reinforce_baseline" in without_effect(Plan(method="rloo"))
    assert "reinforce_baseline" not in without_effect(Plan(method="reinforce++"))


@pytest.mark.parametrize("method", ["rloo", "reinforce++"])
def test_a_sweep_has_the_numbers_and_refusals_of_single_plans(method: str) -> None:
    plan = plan_of(method, **({} if method == "rloo" else GROUP))
    over = {"responses_per_prompt": [1, 2, 4], "response_tokens": [64, 512]}
    rows = sweep(plan, over).to_dict("records")
    assert [bool(row["valid"]) for row in rows].count(False) == 2
    for row in rows:
        values = {name: int(row[name]) for name in over}
        values["validation_response_tokens"] = values["response_tokens"]
        one, _ = try_plan({**plan.model_dump(), **values})
        assert row["valid"] == (one is not None)
        if one is not None:
            assert row["device_bytes"] == estimate(one).device_bytes
