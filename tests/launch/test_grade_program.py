"""GRADE's program does what the planner's step does, in the bytes of its dry run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from launch.own_programs import ADAPTERS, is_ours, made, request_of, takes_what_is_planned
from launch.running import Worker
from planner.plan import FIELDS, Plan
from planner.plan.plan import choices

LEAN = {
    "grade_top_k": 64,
    "grade_dense_scatter": True,
    "grade_reference_cache": True,
    "grade_reward_input": "sparse",
    "grade_step_checkpointing": True,
}
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
    return made(**{"method": "grade", "micro_batch_size": 2, **changes})


def asked(folder: Path, tiny: Path, plan: Plan, *more: str) -> dict[str, Any]:
    """The request that runs a plan's program with the tiny reward model."""
    data = "whole.jsonl" if plan.batch_shape == "full" else "rows.jsonl"
    return request_of(folder, tiny, plan, data, "--reward-model", str(tiny / "reward"), *more)


@pytest.mark.parametrize("case", CASES)
def test_a_step_is_ours_in_values_and_the_dry_runs_in_bytes(
    case: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan = planned(**CASES[case])
    found = programs.ask(asked(tmp_path, tiny, plan))
    assert "error" not in found and "stopped" not in found, found
    is_ours(found)
    assert found["told"].count("Step ") == 3
    takes_what_is_planned(plan, found)


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
