"""The committed runs of transformers' Trainer on a CPU: of today's code, and near both tiers."""

from __future__ import annotations

import hashlib

import pytest
import torch

from accuracy.hf_cases import CASES
from accuracy.hf_runs import dry_peaks, key
from accuracy.hf_summary import closed_errors, dry_errors, stored
from accuracy.trl_cases import Case

torch.set_num_threads(1)

ALLOWED = 2e-4


def _again() -> list[Case]:
    """An eighth of them, which turns as what ran changes."""
    digest = lambda case: hashlib.sha256((key(case) + case.name).encode()).hexdigest()  # noqa: E731
    return sorted(CASES, key=digest)[: len(CASES) // 8]


def test_there_are_cases_of_every_kind() -> None:
    assert list(stored()["cases"]) == [case.name for case in CASES]
    for field, values in {
        "finetuning": ("full", "lora"),
        "dtype": ("fp32", "bf16", "fp16"),
        "sharding": ("none", "ddp", "fsdp2"),
        "batch_shape": ("full", "padded"),
        "activation_offload": (False, True),
    }.items():
        assert {getattr(case.plan, field) for case in CASES} >= set(values), field


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_ran_for_real_would_run_so_today(case: Case) -> None:
    assert stored()["cases"][case.name]["key"] == key(case), (
        "python -m accuracy.hf_runs --out accuracy/measured/trainer-vs-cpu.json"
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_dry_run_and_closed_form_are_near(case: Case) -> None:
    for errors in (dry_errors(case), closed_errors(case)):
        assert len(errors) >= 3 - (case.plan.offload == "all")
        assert not {name: one for name, one in errors.items() if abs(one) > ALLOWED}, errors


@pytest.mark.parametrize("case", _again(), ids=str)
def test_the_dry_run_of_today_is_near(case: Case) -> None:
    real, dry = stored()["cases"][case.name]["real_bytes"], dry_peaks(case)
    assert list(dry) == list(real) and dry == pytest.approx(real, rel=ALLOWED)
