"""SFT's program: a step in the bytes of its dry run, with the planner's own loss and gradients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accuracy.cpu_runs import dry_peaks
from launch.running import Worker, unpack
from launch.tiny_models import PROMPT, RESPONSE, config
from planner import catalog
from planner.frameworks.plain.exporter import write
from planner.plan import Plan

BASE: dict[str, Any] = {
    "model": "tiny/model",
    "method": "sft",
    "gpus": 1,
    "prompts_per_step": 2,
    "prompts_per_update": 2,
    "micro_batch_size": 1,
    "prompt_tokens": PROMPT,
    "response_tokens": RESPONSE,
    "attention": "eager",
    "dtype": "fp32",
    "gradient_checkpointing": "none",
}
CASES: dict[str, dict[str, Any]] = {
    "full": {"batch_shape": "full", "micro_batch_size": 2},
    "padded, recomputed": {"dtype": "bf16", "gradient_checkpointing": "full"},
    "autocast": {"dtype": "bf16", "master_dtype": "fp32", "optimizer": "adamw-foreach"},
    "adapters": {
        "finetuning": "lora", "lora_rank": 4, "dtype": "bf16", "master_dtype": "fp32",
        "batch_shape": "full",
    },
}  # fmt: skip


def planned(**changes: Any) -> Plan:
    return Plan(**{**BASE, "config": catalog.encode_config(config()), **changes})


def asked(folder: Path, tiny: Path, plan: Plan, data: Path | None = None) -> dict[str, Any]:
    unpack(write(plan, ""), folder)
    usual = tiny / ("full-texts.jsonl" if plan.batch_shape == "full" else "texts.jsonl")
    arguments = ["--data", str(data or usual), "--model", str(tiny / "policy"), "--device", "cpu"]
    arguments += ["--output", str(folder / "out"), "--steps", "3", "--learning-rate", "1e-3"]
    program = str(folder / "train_sft.py")
    return {"program": program, "arguments": arguments, "step": "step", "loss": "sft_loss"}


@pytest.mark.parametrize("case", CASES)
def test_a_step_takes_the_dry_runs_bytes(
    case: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan = planned(**CASES[case])
    found = programs.ask(asked(tmp_path, tiny, plan))
    assert "peaks" in found, found
    if plan.batch_shape == "full":
        assert found["ours"]["loss"] == 0 and found["ours"]["gradients"] == 0
        assert found["ours"]["largest"] > 0
    dry = dry_peaks(plan, {"policy": config()})
    apart = {
        "step": max(dry.values()) / found["peaks"]["step"] - 1,
        "loss": dry["policy forward"] / found["peaks"]["loss"] - 1,
    }
    assert not {name: one for name, one in apart.items() if abs(one) > 0.01}, apart


def test_of_a_prompt_and_a_response_the_response_alone_is_learned(
    programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    """A prompt that is not learned can be any; the loss is the response's alone."""
    data = tmp_path / "data.jsonl"
    row = {"prompt": "w7 w8 w9", "response": "w10 w11"}
    data.write_text(json.dumps(row) + "\n" + json.dumps({**row, "response": "w5 " * 40}) + "\n")
    one = planned(prompts_per_step=1, prompts_per_update=1)
    told = programs.ask({**asked(tmp_path / "a", tiny, one, data), "loss": ""})["told"]
    assert "Data: 1 rows of at most 25 tokens; longer and left out: 1." in told
    data.write_text(json.dumps({"text": "w7 w8 w9 w10 w11"}) + "\n")
    whole = programs.ask({**asked(tmp_path / "b", tiny, one, data), "loss": ""})["told"]
    first = [text.split("Step 1: loss ")[1].split()[0] for text in (told, whole)]
    assert first[0] != first[1]
    data.write_text('{"prompt": "w5"}\n')
    stopped = programs.ask(asked(tmp_path / "c", tiny, one, data))["stopped"]
    assert stopped == f"data: line 1 of {data} has no text, nor a prompt and a response."
