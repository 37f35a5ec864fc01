"""TRL's own scripts train on a CPU from what is exported: a model in a folder, a few steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launch.running import Tiny, Worker, read_by_trl, run, unpack
from planner.importer.imported import imported
from planner.launch.export import export, fitted, why_not
from planner.plan import Plan

SIZES: dict[str, Any] = {
    "framework": "trl",
    "gpus": 1,
    "dtype": "fp32",
    "prompts_per_step": 2,
    "prompts_per_update": 2,
    "micro_batch_size": 1,
    "prompt_tokens": 32,
    "response_tokens": 16,
    "gradient_checkpointing": "none",
    "steps": 2,
}
PAIRS = [
    {"prompt": f"{place} and {place} are", "chosen": f" {2 * place}", "rejected": f" {3 * place}"}
    for place in range(1, 7)
]
COLUMNS = {
    "dpo": ("prompt", "chosen", "rejected"), "grpo": ("prompt", "answer"),
    "sft": ("prompt", "completion"),
}  # fmt: skip
LORA = {"finetuning": "lora", "lora_targets": "q_proj,v_proj"}
CASES: dict[str, dict[str, Any]] = {
    "dpo": {"method": "dpo"},
    "dpo, cached": {"method": "dpo", "reference": "cached-logprobs"},
    "dpo, adapters": {"method": "dpo", **LORA},
    "grpo": {"method": "grpo", "rollout": "hf", "responses_per_prompt": 2, "kl": "none"},
}


def trained(plan: Plan, trl: Worker, qwen: Tiny, tmp_path: Path) -> tuple[Path, list[float]]:
    """The folder that TRL's own script trained in as exported, and the losses that it printed."""
    folder = unpack(export(plan, "trl"), tmp_path / "bundle")
    data = tmp_path / "data"
    data.mkdir()
    rows = [{**one, "answer": "4", "completion": one["chosen"]} for one in PAIRS]
    lines = [json.dumps({name: row[name] for name in COLUMNS[plan.method]}) + "\n" for row in rows]
    (data / "train.jsonl").write_text("".join(lines))
    words = run(folder, DATASET=str(data), MODEL=str(qwen.folder / "model"))[-1]
    module = words[words.index("-m") + 1]
    found = trl.ask(
        {
            "kind": "train",
            "module": module,
            "folder": str(folder),
            "argv": [*words[words.index("-m") + 2 :], "--logging_steps", "1"],
        }
    )
    assert "error" not in found, found
    return folder, [one["loss"] for one in found["logs"] if "loss" in one]


@pytest.mark.parametrize("case", CASES)
def test_what_is_exported_trains(case: str, trl: Worker, qwen: Tiny, tmp_path: Path) -> None:
    plan = fitted(Plan(**SIZES, config=qwen.config, **CASES[case]), "trl")
    folder, losses = trained(plan, trl, qwen, tmp_path)
    assert len(losses) == plan.steps
    if plan.method == "dpo":  # a policy that is its reference: log 2, and then it moves
        assert losses[0] == pytest.approx(0.6931, abs=1e-3) and losses[1] != losses[0]
    saved = "adapter_model.safetensors" if plan.finetuning == "lora" else "model.safetensors"
    assert (folder / "out" / saved).is_file()


PERSONS = """#!/bin/bash
# what somebody has: variables, arithmetic, and a model in a folder of their own
set -e
MODEL=${MODEL:-./models/mine}
ROWS=2; UPDATE=4
accelerate launch --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no \\
    -m trl.scripts.sft --model_name_or_path "$MODEL" --dtype float32 --bf16 false \\
    --dataset_name "${DATASET:-data}" --max_length 48 --gradient_checkpointing false \\
    --per_device_train_batch_size $ROWS --gradient_accumulation_steps $((UPDATE / ROWS)) \\
    --use_peft --lora_r 4 --lora_target_modules q_proj v_proj --max_steps 3 --output_dir out
"""


def test_a_persons_script_is_imported_exported_and_trains(
    trl: Worker, qwen: Tiny, tmp_path: Path
) -> None:
    config = (qwen.folder / "model" / "config.json").read_text()
    found = imported({"train.sh": PERSONS, "config.json": config})
    plan = found.plan
    assert plan is not None and not found.problems and not found.left_out
    assert (plan.method, plan.finetuning, plan.lora_rank) == ("sft", "lora", 4)
    assert (plan.micro_batch_size, plan.prompts_per_update, plan.steps) == (2, 4, 3)
    assert (plan.dtype, plan.prompt_tokens + plan.response_tokens) == ("fp32", 48)
    folder, losses = trained(plan, trl, qwen, tmp_path)
    assert len(losses) == 3 and losses[2] != losses[0]
    saved = json.loads((folder / "out" / "adapter_config.json").read_text())
    assert (saved["r"], {*saved["target_modules"]}) == (4, {"q_proj", "v_proj"})


def test_dpos_file_means_the_plan(trl: Worker, tmp_path: Path) -> None:
    plan = fitted(
        Plan(
            method="dpo", framework="trl", gpus=8, prompts_per_step=64, prompts_per_update=64,
            micro_batch_size=2, prompt_tokens=512, response_tokens=256, batch_shape="packed",
            reference="cached-logprobs", steps=100,
        ),
        "trl",
    )  # fmt: skip
    assert plan.batch_shape == "padded"  # TRL packs no pairs
    reply = read_by_trl(trl, tmp_path, export(plan, "trl"), plan)
    assert "error" not in reply, reply
    wanted = {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "max_length": 768,
        "precompute_ref_log_probs": True,
        "precompute_ref_batch_size": None,  # TRL's default is the training's own
        "max_steps": 100,
        "beta": 0.1,
    }
    assert {name: reply["values"][name] for name in wanted} == wanted


def test_a_reference_that_trls_script_does_not_make_is_refused() -> None:
    plan = Plan(method="dpo", framework="trl", finetuning="lora", reference="frozen-adapter")
    [said] = [one for one in why_not(plan, "trl") if one.startswith("reference: ")]
    assert "Set reference to adapter-disabled or cached-logprobs." in said
