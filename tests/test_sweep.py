"""A sweep is many estimates at once: same numbers, same verdicts, same refusals."""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd
import pytest

from planner.estimate import estimate
from planner.plan import Plan, try_plan
from planner.plan.methods import methods
from planner.setup.quantities import VECTOR_FIELDS
from planner.sweeps.table import sweep
from planner.values.dealing import rest

BASES: dict[str, dict[str, Any]] = {
    **{name: {"method": name} for name in methods()},
    "grpo": {"kl": "loss"},
    "padded hf": {"rollout": "hf", "empty_cache": "never", "gradient_checkpointing": "none"},
    "ppo": {"method": "ppo", "prompts_per_step": 512, "empty_cache": "every-step"},
    "intuitor": {"method": "intuitor", "self_certainty": "chunked-tokens"},
    "sft": {"method": "sft", "prompts_per_step": 512, "optimizer": "adamw-foreach"},
    "lora": {"finetuning": "lora", "lora_targets": "q_proj,v_proj", "logits": "fused"},
    "verl": {"framework": "verl", "offload": "all-between-phases"},
    "one sequence a row": {"method": "grpo", "attention": "sdpa", "batch_shape": "packed"},
    "of a measured model": {
        **{"method": "grpo", "attention": "sdpa", "batch_shape": "packed"},
        **{"model": "moonshotai/Moonlight-16B-A3B", "gradient_checkpointing": "none"},
    },
    "verl's critic": {"method": "ppo", "framework": "verl", "attention": "sdpa"},
    "separate": {"gpus": 9, "rollout": "vllm-separate", "rollout_gpus": 1, "sharding": "zero2"},
    "one row": {"model": "EleutherAI/pythia-160m", "attention": "eager", "prompt_tokens": 64},
    "sliding": {"model": "google/gemma-3-1b-pt", "attention": "sdpa", "batch_shape": "full"},
}


@pytest.mark.parametrize("name", BASES)
def test_every_row_equals_its_own_estimate(name: str) -> None:
    plan = Plan(**{"gpus_per_node": 1, **BASES[name]})
    table = sweep(
        plan,
        {"micro_batch_size": [1, 4], "response_tokens": [100, 513, 4096], "gpus": [2, 3, 9, 16]},
    )
    assert len(table) == 24
    assert table["valid"].any() and not table["valid"].all()
    for row in table.to_dict("records"):
        size, length = int(row["micro_batch_size"]), int(row["response_tokens"])
        changed, _ = try_plan(
            {
                **plan.model_dump(),
                "gpus": int(row["gpus"]),
                "micro_batch_size": size,
                "logprob_micro_batch_size": size,
                "response_tokens": length,
                "validation_response_tokens": length,
            }
        )
        if not row["valid"]:  # a plan of its own would be filled up
            assert changed is None or rest(changed, size)
            continue
        assert changed is not None
        one = estimate(changed)
        assert row["device_bytes"] == one.device_bytes
        assert row["requested_bytes"] == one.worst.requested_bytes
        assert row["reserved_bytes"] == one.worst.reserved_bytes
        assert row["host_bytes"] == one.host_bytes
        assert row["trainer_bytes"] == one.trainer_bytes
        assert row["engine_bytes"] == one.engine_bytes
        assert row["worst_phase"] == one.worst.name
        trainers = [phase for phase in one.phases if phase.rank == "trainer"]
        most = max(trainers, key=lambda phase: phase.requested_bytes)
        assert row["trainer_phase"] == most.name
        assert row["verdict"] == one.verdict.word
        assert row["step_seconds"] == pytest.approx(one.step_seconds)
        for phase in one.phases:
            assert row[f"phase: {phase.name}"] == phase.device_bytes


def test_models_and_switches_are_axes_too() -> None:
    table = sweep(
        Plan(),
        {"model": ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"], "optimizer": ["sgd", "adamw-fused"]},
    )
    assert list(table.columns[:2]) == ["model", "optimizer"]
    assert table["device_bytes"].notna().all()
    assert table.groupby("model")["reserved_bytes"].max().is_monotonic_increasing


def test_a_combination_that_is_no_plan_is_a_row_without_numbers() -> None:
    table = sweep(Plan(), {"model": ["Qwen/Qwen3-0.6B", "openai/gpt-oss-20b"]})
    assert table["valid"].tolist() == [True, False]
    assert table["device_bytes"].isna().tolist() == [False, True]
    mixed = sweep(Plan(), {"gpus": [8, 7]})
    assert mixed["device_bytes"].isna().tolist() == [False, True]
    assert mixed["verdict"].isna().tolist() == [False, True]


def test_adapters_that_a_model_does_not_take_are_rows_without_numbers() -> None:
    models = ["Qwen/Qwen3-0.6B", "allenai/OLMoE-1B-7B-0924"]
    over = {"model": models, "finetuning": ["full", "lora"]}
    table = sweep(Plan(method="sft", rollout="none", kl="none"), over)
    assert table["valid"].tolist() == [True, True, True, False]
    with pytest.raises(ValueError, match="reaches past the attention"):
        Plan(method="sft", model=models[1], finetuning="lora", lora_targets="all-linear")


@pytest.mark.parametrize("lengths", ["", "1~lognormal_700~600"])
def test_counts_that_leave_no_gpu_to_train_are_rows_without_numbers(lengths: str) -> None:
    plan = Plan(
        framework="verl",
        gpus=16,
        rollout="vllm-separate",
        rollout_gpus=8,
        length_distribution=lengths,
    )
    table = sweep(plan, {"gpus": [4, 8, 16]}, phase_seconds=True)
    assert table["valid"].tolist() == [False, False, True]
    assert table["step_seconds"].isna().tolist() == [True, True, False]
    assert table["step_seconds"].iloc[-1] == pytest.approx(estimate(plan).step_seconds)


@pytest.mark.parametrize(
    ("over", "word"),
    [({"colour": [1]}, "colour"), ({"gpus": []}, "gpus"), ({"gpus": range(1, 30_000_000)}, "over")],
)
def test_bad_axes_are_refused_by_name(over: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        sweep(Plan(), over)


def test_vector_fields_are_fields() -> None:
    assert set(VECTOR_FIELDS) <= set(Plan.model_fields)


def test_rows_do_not_depend_on_how_many_are_judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(**BASES["grpo"])
    over: dict[str, Any] = {
        "response_tokens": range(100, 1000, 90),
        "optimizer": ["sgd", "adamw-fused"],
        "micro_batch_size": [1, 2, 3],
    }
    whole = sweep(plan, over)
    monkeypatch.setattr(sys.modules["planner.sweeps.table"], "PASS", 7)
    pd.testing.assert_frame_equal(sweep(plan, over), whole)
