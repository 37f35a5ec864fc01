"""The measuring command, dry: its cases are plans, its loop runs, its errors are signed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from accuracy import gpu
from accuracy.real_step import real_step
from planner import catalog
from planner.estimate import estimate
from planner.plan import Plan

TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 100,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


class Told:
    """A meter that says what it was told, in the form of the CUDA one."""

    def __init__(self) -> None:
        self.resets = 0

    def watch(self) -> Any:
        return nullcontext()

    def reset_peak(self) -> None:
        self.resets += 1

    def read(self) -> dict[str, int]:
        return dict.fromkeys(gpu.COUNTERS, 1000)


def test_cases_are_plans_of_every_switch_that_fit_the_card() -> None:
    found = list(gpu.plans("h200-141gb"))
    assert len(found) >= 60
    assert {plan.model for plan in found} == set(gpu.MODELS)
    assert {plan.finetuning for plan in found} == {"full", "lora"}
    assert {plan.batch_shape for plan in found} == {"full", "padded"}
    small = list(gpu.plans("rtx-4090"))
    assert 0 < len(small) < len(found)


def test_the_step_runs_and_errors_are_signed() -> None:
    plan = Plan(
        model="tiny/model",
        config=catalog.encode_config(TINY),
        method="sft",
        gpus=1,
        sharding="none",
        master_dtype="none",
        prompts_per_step=2,
        prompt_tokens=8,
        response_tokens=8,
        batch_shape="full",
        attention="eager",
        logits="full",
    )
    meter = Told()
    measured = real_step(TINY, plan, meter)
    assert set(measured) == {"policy forward", "policy backward", "optimizer step"}
    assert meter.resets == 2 * (2 * 2 + 1)
    phases = {phase.name: phase for phase in estimate(plan).phases}
    row = gpu.compared(plan, measured)["phases"]["policy backward"]
    said = phases["policy backward"].reserved_bytes
    assert row["error"]["reserved_bytes"] == pytest.approx(said / 1000 - 1, abs=1e-5)


def test_without_a_card_it_says_so(capsys: Any, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--gpu", "h200-141gb", "--out", str(tmp_path / "x.json")]) == 2
    assert "No CUDA device" in capsys.readouterr().err
