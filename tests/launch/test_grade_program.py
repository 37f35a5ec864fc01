"""GRADE's program does what the planner's step does, in the bytes of its dry run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from accuracy.cpu_runs import dry_peaks
from launch.running import Worker, unpack
from launch.tiny_models import PROMPT, RESPONSE, config
from planner import catalog
from planner.frameworks.plain.exporter import write
from planner.plan import FIELDS, Plan
from planner.plan.plan import choices

BASE: dict[str, Any] = {
    "model": "tiny/model",
    "method": "grade",
    "gpus": 1,
    "prompts_per_step": 2,
    "micro_batch_size": 2,
    "prompt_tokens": PROMPT,
    "response_tokens": RESPONSE,
    "attention": "eager",
    "dtype": "fp32",
    "gradient_checkpointing": "none",
}
LEAN = {
    "grade_top_k": 64,
    "grade_dense_scatter": True,
    "grade_reference_cache": True,
    "grade_reward_input": "sparse",
    "grade_step_checkpointing": True,
}
ADAPTERS = {"finetuning": "lora", "lora_rank": 4, "dtype": "bf16", "master_dtype": "fp32"}
AS_CODED = {"grade_autocast": True, "lora_dropout": 0.05}
"""What the authors' code has besides, where plans have it."""
CASES: dict[str, dict[str, Any]] = {
    "soft": {"optimizer": "adamw-foreach", "batch_shape": "full"},
    "straight-through": {
        "grade_estimator": "straight-through",
        "grade_top_k": 64,
        "gradient_checkpointing": "full",
        "optimizer": "sgd",
        "micro_batch_size": 1,
    },
    **{
        f"lean-{kl}": {"grade_kl": kl, **LEAN, **ADAPTERS}
        for kl in choices("grade_kl")
        if kl not in ("none", "batch")
    },
    "batch": {
        "grade_kl": "batch",
        "reference": "adapter-disabled",
        **ADAPTERS,
        **{name: value for name, value in AS_CODED.items() if name in FIELDS},
    },
}


def planned(**changes: Any) -> Plan:
    return Plan(**{**BASE, "config": catalog.encode_config(config()), **changes})


def asked(folder: Path, tiny: Path, plan: Plan, *more: str) -> dict[str, Any]:
    """The request that runs a plan's program on the tiny models for three steps."""
    unpack(write(plan, ""), folder)
    data = "whole.jsonl" if plan.batch_shape == "full" else "rows.jsonl"
    arguments = ["--data", str(tiny / data), "--model", str(tiny / "policy"), "--device", "cpu"]
    arguments += ["--reward-model", str(tiny / "reward"), "--output", str(folder / "out")]
    arguments += ["--steps", "3", "--learning-rate", "1e-3", *more]
    return {
        "program": str(folder / "train_grade.py"),
        "arguments": arguments,
        "step": "update",
        "loss": "grade_loss",
    }


@pytest.mark.parametrize("case", CASES)
def test_a_step_is_ours_in_values_and_the_dry_runs_in_bytes(
    case: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan = planned(**CASES[case])
    found = programs.ask(asked(tmp_path, tiny, plan))
    assert "error" not in found and "stopped" not in found, found
    assert found["ours"]["loss"] == 0 and found["ours"]["gradients"] == 0
    assert found["ours"]["largest"] > 0
    assert found["told"].count("Step ") == 3
    dry = dry_peaks(plan, dict.fromkeys(("policy", "critic", "reward"), config()))
    apart = {
        "step": max(dry.values()) / found["peaks"]["step"] - 1,
        "loss": dry["policy forward"] / found["peaks"]["loss"] - 1,
    }
    assert not {name: one for name, one in apart.items() if abs(one) > 0.01}, apart


def test_a_dry_run_of_the_program_reads_the_data_and_loads_no_model(
    programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    asking = asked(tmp_path, tiny, planned(), "--dry", "--reward-model", "/nowhere")
    found = programs.ask(asking)
    assert found["peaks"] == {} and "Data: 6 prompts of at most 21 tokens" in found["told"]
    assert "Step " not in found["told"] and not (tmp_path / "out").exists()


@pytest.mark.parametrize("alias", ["gumbel", "ste_legacy"])
def test_an_authors_trainer_is_a_name_for_its_options(
    alias: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan, flags = planned(grade_kl="online"), ("--method", alias, "--report-mass")
    found = programs.ask({**asked(tmp_path, tiny, plan, *flags), "loss": ""})
    assert found["told"].count("Step ") == found["told"].count("train/kl ") == 3, found
    shares = re.findall(r"top-k mass ([\d.]+)", found["told"])
    assert len(shares) == (3 if alias == "gumbel" else 0)
    assert all(0.2 < float(share) < 1 for share in shares)
    planned_otherwise = "Options not as planned, so the prediction does not apply: "
    assert planned_otherwise in found["told"]
    if alias == "gumbel":
        assert "top_k=256, dense_scatter=True, kl='online-metric'" in found["told"]
        again = asked(tmp_path, tiny, plan, "--method", alias, "--top-k", "8", "--dry")
        assert "top_k=8, dense_scatter=True" in programs.ask(again)["told"]
    else:
        assert "estimator='straight-through', top_k=0" in found["told"]


def test_a_line_without_a_prompt_is_named(programs: Worker, tiny: Path, tmp_path: Path) -> None:
    data = tmp_path / "broken.jsonl"
    data.write_text('{"prompt": "w5"}\n{"prompt": 7}\n')
    found = programs.ask(asked(tmp_path / "p", tiny, planned(), "--data", str(data)))
    assert found["stopped"] == f"data: line 2 of {data} has no text 'prompt'."


def test_a_reward_that_would_begin_at_random_is_refused(
    programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    asking = asked(tmp_path, tiny, planned(), "--reward-model", str(tiny / "policy"))
    found = programs.ask(asking)
    assert "has no score.weight" in found.get("stopped", ""), found
