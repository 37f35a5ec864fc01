"""DPO's programs: a step in the bytes of its dry run, and references that were computed before."""

from __future__ import annotations

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
    "method": "dpo",
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
ADAPTERS = {"finetuning": "lora", "lora_rank": 4, "dtype": "bf16", "master_dtype": "fp32"}
AUTOCAST = {"dtype": "bf16", "master_dtype": "fp32"}
CASES: dict[str, dict[str, Any]] = {
    "copy": {"batch_shape": "full", "logits": "full"},
    "offloaded": {"reference": "offloaded", **AUTOCAST, "gradient_checkpointing": "full"},
    "adapters": {"reference": "adapter-disabled", **ADAPTERS, "micro_batch_size": 2},
    "cached-logprobs": {"reference": "cached-logprobs"},
    "cached-activations": {"reference": "cached-activations", **AUTOCAST},
    "cached-activations-adapters": {"reference": "cached-activations", **ADAPTERS},
}


def planned(**changes: Any) -> Plan:
    return Plan(**{**BASE, "config": catalog.encode_config(config()), **changes})


class Exported:
    """A plan's programs in a folder, to be run on the tiny models."""

    def __init__(self, plan: Plan, folder: Path, tiny: Path, worker: Worker) -> None:
        self.plan, self.worker = plan, worker
        self.folder = unpack(write(plan, ""), folder)
        self.data = tiny / ("whole.jsonl" if plan.batch_shape == "full" else "rows.jsonl")
        self.model = tiny / "policy"

    def run(self, name: str, *more: str, **request: str) -> dict[str, Any]:
        arguments = ["--data", str(self.data), "--model", str(self.model), "--device", "cpu"]
        arguments += ["--cache", str(self.folder / "cache"), "--output", str(self.folder / "out")]
        asked = {"program": str(self.folder / name), **request}
        return self.worker.ask(
            {**asked, "arguments": [*arguments, "--learning-rate", "1e-3", *more]}
        )

    def train(self, *more: str) -> dict[str, Any]:
        return self.run("train_dpo.py", "--steps", "3", *more, step="step", loss="dpo_loss")

    def precompute(self) -> str:
        found = self.run("precompute_reference.py")
        assert found.keys() == {"told"}, found
        return str(found["told"])


@pytest.mark.parametrize("case", CASES)
def test_a_step_takes_the_dry_runs_bytes(
    case: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan = planned(**CASES[case])
    exported = Exported(plan, tmp_path, tiny, programs)
    if plan.reference.startswith("cached"):
        exported.precompute()
    found = exported.train()
    assert "peaks" in found, found
    dry = dry_peaks(plan, {"policy": config()})
    apart = {
        "step": max(dry.values()) / found["peaks"]["step"] - 1,
        "loss": dry["policy forward"] / found["peaks"]["loss"] - 1,
    }
    print(case, apart, found["told"])
    assert not {name: one for name, one in apart.items() if abs(one) > 0.01}, apart
