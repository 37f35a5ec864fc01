"""The committed runs of TRL on a CPU: they are of today's code, and both tiers agree with them."""

from __future__ import annotations

import hashlib
from statistics import median

import pytest
import torch

from accuracy.trl_cases import CASES, LIVE, Case
from accuracy.trl_runs import dry_peaks, key
from accuracy.trl_summary import closed_errors, dry_errors, stored

torch.set_num_threads(1)

ALLOWED, MEDIAN = 0.01, 0.002
ONE_IN = 16
MIXTURE = "SFT, mixture"
SWITCHES = {
    "method": ("sft", "dpo", "grpo", "rloo"),
    "finetuning": ("full", "lora"),
    "dtype": ("fp32", "bf16"),
    "master_dtype": ("fp32", "none"),
    "gradient_checkpointing": ("none", "full"),
    "batch_shape": ("full", "padded"),
    "optimizer": ("adamw-fused", "adamw-foreach", "sgd"),
    "attention": ("sdpa", "eager"),
    "kl": ("none", "loss", "reward"),
    "reference": ("none", "copy", "adapter-disabled"),
    "rollout": ("none", "hf", "vllm-separate"),
    "entropy": (False, True),
    "micro_batch_size": (1, 2, 4),
}


def _again() -> list[Case]:
    """A mixture, and a sixteenth of the others, which turns as what ran changes."""
    turning = sorted(
        (case for case in CASES if case.name not in LIVE and case.name != MIXTURE),
        key=lambda case: hashlib.sha256((key(case) + case.name).encode()).hexdigest(),
    )
    return [*(case for case in CASES if case.name == MIXTURE), *turning[: len(CASES) // ONE_IN]]


def test_there_are_enough_cases_of_every_kind() -> None:
    assert list(stored()["cases"]) == [case.name for case in CASES]
    assert len(CASES) == len({case.name for case in CASES}) >= 40
    assert {case.name for case in CASES} > set(LIVE) and len(LIVE) == 6
    for field, values in SWITCHES.items():
        assert {getattr(case.plan, field) for case in CASES} >= set(values), field
    configs = [case.config for case in CASES]
    assert {config["tie_word_embeddings"] for config in configs} == {True, False}
    assert {1, 2, 3} <= {c.plan.prompts_per_step // c.plan.micro_batch_size for c in CASES}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_ran_for_real_would_run_so_today(case: Case) -> None:
    assert stored()["cases"][case.name]["key"] == key(case), (
        "python -m accuracy.trl_runs --out accuracy/measured/trl-vs-cpu.json"
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_dry_run_and_closed_form_are_near(case: Case) -> None:
    for errors in (dry_errors(case), closed_errors(case)):
        assert len(errors) >= 3 - (case.plan.offload == "all")
        assert not {name: one for name, one in errors.items() if abs(one) > ALLOWED}, errors


def test_half_of_the_cases_are_nearer() -> None:
    assert median(max(map(abs, dry_errors(case).values())) for case in CASES) < MEDIAN


@pytest.mark.parametrize("case", _again(), ids=str)
def test_the_dry_run_of_today_is_near(case: Case) -> None:
    real, dry = stored()["cases"][case.name]["real_bytes"], dry_peaks(case)
    assert list(dry) == list(real)
    assert not {name: dry[name] for name in real if abs(dry[name] / real[name] - 1) > ALLOWED}
