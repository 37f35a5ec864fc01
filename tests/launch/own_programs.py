"""Plans so small that a processor runs their programs, and what each run has to agree with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accuracy.cpu_runs import dry_peaks
from launch.running import unpack
from launch.tiny_models import PROMPT, RESPONSE, config
from planner import catalog
from planner.frameworks.plain.exporter import write
from planner.plan import Plan

BASE: dict[str, Any] = {
    "model": "tiny/model",
    "gpus": 1,
    "prompts_per_step": 2,
    "micro_batch_size": 1,
    "prompt_tokens": PROMPT,
    "response_tokens": RESPONSE,
    "attention": "eager",
    "dtype": "fp32",
    "gradient_checkpointing": "none",
}
AUTOCAST = {"dtype": "bf16", "master_dtype": "fp32"}
ADAPTERS = {"finetuning": "lora", "lora_rank": 4, **AUTOCAST}


def made(**fields: Any) -> Plan:
    """A plan of the tiny model."""
    return Plan(**{**BASE, "config": catalog.encode_config(config()), **fields})


def request_of(
    folder: Path, tiny: Path, plan: Plan, data: Path | str, *more: str, loss: str = ""
) -> dict[str, Any]:
    """The request that runs a plan's program on the tiny models for three steps."""
    unpack(write(plan, ""), folder)
    if (folder / "reward.py").is_file():  # a rule that random responses meet more or less
        (folder / "reward.py").write_text(RULE)
    arguments = ["--data", str(tiny / data), "--model", str(tiny / "policy"), "--device", "cpu"]
    arguments += ["--output", str(folder / "out"), "--steps", "3", "--learning-rate", "1e-3"]
    return {
        "program": str(folder / f"train_{plan.method}.py"),
        "arguments": [*arguments, *more],
        "step": "step",
        "loss": loss or f"{plan.method}_loss",
    }


RULE = "def score(response, answer): return sum(map(ord, response)) % 97 / 97\n"


def is_ours(found: dict[str, Any]) -> None:
    """Loss and gradients are those of the planner's step."""
    assert found["ours"]["loss"] == 0 and found["ours"]["gradients"] == 0, found["ours"]
    assert found["ours"]["largest"] > 0


def takes_what_is_planned(plan: Plan, found: dict[str, Any], beside_bytes: int = 0) -> None:
    """A step and its losses peak where the dry run does, within 1 %."""
    dry = dry_peaks(plan, dict.fromkeys(("policy", "critic", "reward"), config()))
    wanted = {"step": max(dry.values()), "loss": dry["policy forward"]}
    apart = {
        name: (size + beside_bytes) / found["peaks"][name] - 1 for name, size in wanted.items()
    }
    assert not {name: one for name, one in apart.items() if abs(one) > 0.01}, (apart, dry)
