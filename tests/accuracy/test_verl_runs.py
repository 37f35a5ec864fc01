"""The committed runs of verl on a CPU: they are of today's code, and both tiers agree with them."""

from __future__ import annotations

import hashlib
from statistics import median

import pytest
import torch

from accuracy.verl_cases import CASES, LIVE, Case
from accuracy.verl_runs import dry_peaks, key
from accuracy.verl_summary import SUMMARY

torch.set_num_threads(1)

ALLOWED, MEDIAN = 0.01, 0.0002
NAMED = {case.name: case for case in CASES}
SWITCHES = {
    "method": ("grpo", "ppo"),
    "finetuning": ("full", "lora"),
    "dtype": ("fp32", "bf16", "fp16"),
    "gradient_checkpointing": ("none", "full"),
    "batch_shape": ("full", "padded", "packed"),
    "attention": ("sdpa", "flash"),
    "logits": ("full", "chunked"),
    "kl": ("none", "loss", "reward"),
    "entropy": (False, True),
    "max_tokens_per_micro_batch": (0, 400, 4000),
}


def _again() -> list[Case]:
    """Chunks under a budget, and two of the others, which turn as what ran changes."""
    turning = sorted(
        (case for case in CASES if case.name not in LIVE and case.name != CHUNKS),
        key=lambda case: hashlib.sha256((key(case) + case.name).encode()).hexdigest(),
    )
    return [NAMED[CHUNKS], *turning[:2]]


CHUNKS = "GRPO, chunks, budget, entropy"


def test_there_are_enough_cases_of_every_kind() -> None:
    assert list(SUMMARY.stored()["cases"]) == [case.name for case in CASES]
    assert len(CASES) == len(NAMED) >= 25 and set(NAMED) > {*LIVE, CHUNKS}
    for field, values in SWITCHES.items():
        assert {getattr(case.plan, field) for case in CASES} >= set(values), field


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_ran_for_real_would_run_so_today(case: Case) -> None:
    assert SUMMARY.stored()["cases"][case.name]["key"] == key(case), (
        "python -m accuracy.verl_runs --out accuracy/measured/verl-vs-cpu.json"
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_dry_run_and_closed_form_are_near(case: Case) -> None:
    for errors in (SUMMARY.dry_errors(case), SUMMARY.closed_errors(case)):
        assert len(errors) >= 4
        assert not {name: one for name, one in errors.items() if abs(one) > ALLOWED}, errors


def test_half_of_the_cases_are_nearer() -> None:
    worst = [max(map(abs, SUMMARY.dry_errors(case).values())) for case in CASES]
    assert median(worst) < MEDIAN


@pytest.mark.parametrize("case", _again(), ids=str)
def test_the_dry_run_of_today_is_near(case: Case) -> None:
    real, dry = SUMMARY.stored()["cases"][case.name]["real_bytes"], dry_peaks(case)
    assert list(dry) == list(real)
    assert not {name: dry[name] for name in real if abs(dry[name] / real[name] - 1) > ALLOWED}
