"""Programs that learn from their own responses: the planner's step, in the dry run's bytes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from accuracy.cpu_runs import dry_peaks
from launch.running import Worker, unpack
from launch.tiny_models import PROMPT, RESPONSE, config
from planner import catalog
from planner.launch.export import export, fitted
from planner.plan import Plan

BASE: dict[str, Any] = {
    "model": "tiny/model",
    "gpus": 1,
    "prompts_per_step": 2,
    "prompts_per_update": 2,
    "responses_per_prompt": 2,
    "micro_batch_size": 1,
    "prompt_tokens": PROMPT,
    "response_tokens": RESPONSE,
    "attention": "eager",
    "dtype": "fp32",
    "gradient_checkpointing": "none",
    "rollout": "hf",
}
ADAPTERS = {"finetuning": "lora", "lora_rank": 4, "dtype": "bf16", "master_dtype": "fp32"}
AUTOCAST = {"dtype": "bf16", "master_dtype": "fp32"}
CASES: dict[str, dict[str, Any]] = {
    "grpo": {"method": "grpo", "micro_batch_size": 2},
    "grpo, two updates": {"method": "grpo", "prompts_per_update": 1, "temperature": 0.7},
    "grpo, adapters": {"method": "grpo", **ADAPTERS, "reference": "adapter-disabled"},
    "grpo, entropy, recomputed": {
        "method": "grpo", "entropy": True, "kl": "none", "gradient_checkpointing": "full",
        **AUTOCAST,
    },
    "intuitor": {"method": "intuitor"},
    "intuitor, adapters": {"method": "intuitor", **ADAPTERS, "reference": "adapter-disabled"},
    "ppo": {"method": "ppo", "responses_per_prompt": 1, "prompts_per_update": 1},
    "ppo, autocast, recomputed": {
        "method": "ppo", "kl": "loss", "gradient_checkpointing": "full", **AUTOCAST,
        "responses_per_prompt": 1, "micro_batch_size": 2,
    },
    "grpo, kl in the reward": {
        "method": "grpo", "kl": "reward", "reference": "offloaded", "logits": "full",
    },
}  # fmt: skip


RULE = "def score(response, answer): return sum(map(ord, response)) % 97 / 97\n"


def planned(**changes: Any) -> Plan:
    values = {**BASE, "config": catalog.encode_config(config()), **changes}
    return fitted(Plan(framework="plain", **values), "plain")


def asked(folder: Path, tiny: Path, plan: Plan, *more: str) -> dict[str, Any]:
    unpack(export(plan, "plain"), folder)
    if (folder / "reward.py").is_file():  # a rule that random responses meet more or less
        (folder / "reward.py").write_text(RULE)
    arguments = ["--data", str(tiny / "rows.jsonl"), "--model", str(tiny / "policy")]
    arguments += ["--output", str(folder / "out"), "--steps", "3", "--device", "cpu"]
    return {
        "program": str(folder / f"train_{plan.method}.py"),
        "arguments": [*arguments, "--learning-rate", "1e-3", *more],
        "step": "step",
        "loss": f"{plan.method}_loss",
    }


@pytest.mark.parametrize("case", CASES)
def test_a_step_is_ours_in_values_and_the_dry_runs_in_bytes(
    case: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan = planned(**CASES[case])
    found = programs.ask(asked(tmp_path, tiny, plan))
    assert "peaks" in found, found
    assert found["ours"]["loss"] == 0 and found["ours"]["gradients"] == 0, found["ours"]
    assert found["ours"]["largest"] > 0
    assert len(re.findall(r"Step \d: loss ", found["told"])) == 3
    dry = dry_peaks(plan, dict.fromkeys(("policy", "critic"), config()))
    apart = {
        "step": max(dry.values()) / found["peaks"]["step"] - 1,
        "loss": dry["policy forward"] / found["peaks"]["loss"] - 1,
    }
    assert not {name: one for name, one in apart.items() if abs(one) > 0.01}, (apart, dry)
