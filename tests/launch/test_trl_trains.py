"""TRL's own scripts train on a CPU from what is exported: a model in a folder, a few steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launch.running import Tiny, Worker, read_by_trl, run, unpack
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
LORA = {"finetuning": "lora", "lora_targets": "q_proj,v_proj"}
CASES: dict[str, dict[str, Any]] = {
    "dpo": {"method": "dpo"},
    "dpo, cached": {"method": "dpo", "reference": "cached-logprobs"},
    "dpo, adapters": {"method": "dpo", **LORA},
    "grpo": {"method": "grpo", "rollout": "hf", "responses_per_prompt": 2, "kl": "none"},
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_exported_trains(case: str, trl: Worker, qwen: Tiny, tmp_path: Path) -> None:
    plan = fitted(Plan(**SIZES, config=qwen.config, **CASES[case]), "trl")
    folder = unpack(export(plan, "trl"), tmp_path / "bundle")
    data = tmp_path / "data"
    data.mkdir()
    rows = PAIRS if plan.method == "dpo" else [{**one, "answer": "4"} for one in PAIRS]
    kept = ("prompt", "chosen", "rejected") if plan.method == "dpo" else ("prompt", "answer")
    lines = [json.dumps({name: row[name] for name in kept}) + "\n" for row in rows]
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
    losses = [one["loss"] for one in found["logs"] if "loss" in one]
    assert len(losses) == plan.steps
    if plan.method == "dpo":  # a policy that is its reference: log 2, and then it moves
        assert losses[0] == pytest.approx(0.6931, abs=1e-3) and losses[1] != losses[0]
    saved = "adapter_model.safetensors" if plan.finetuning == "lora" else "model.safetensors"
    assert (folder / "out" / saved).is_file()


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
