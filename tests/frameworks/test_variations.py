"""Variations of GRPO: what a framework's own loss holds is the same, whichever of them it is."""

from __future__ import annotations

import pytest
import torch

from accuracy import trl_runs, verl_runs
from accuracy.trl_cases import Case as TrlCase
from accuracy.verl_cases import CASES
from accuracy.verl_cases import Case as VerlCase
from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.methods import variations
from planner.plan.trainers import able

torch.set_num_threads(1)

SHORT = {"prompt_tokens": 64, "response_tokens": 64, "kl": "none"}


def _verl(variation: str) -> dict[str, int]:
    case = VerlCase("short", "grpo", {**SHORT, "variation": variation}, CASES[0].config)
    return verl_runs.dry_peaks(case)


def _trl(variation: str) -> dict[str, int]:
    return trl_runs.dry_peaks(TrlCase("short", "grpo", {**SHORT, "variation": variation}))


OWN = {"verl": _verl, "trl": _trl}


@pytest.mark.parametrize("framework", OWN)
def test_a_frameworks_own_step_holds_the_same_bytes_in_each(framework: str) -> None:
    """A few numbers a token: within a thousandth in every phase of the step."""
    plain = OWN[framework]("none")
    for name in variations():
        varied = OWN[framework](name)
        assert list(varied) == list(plain)
        apart = {phase: varied[phase] / plain[phase] - 1 for phase in plain}
        assert max(map(abs, apart.values())) < 1e-3, (name, apart)


@pytest.mark.parametrize("framework", able("grpo"))
@pytest.mark.parametrize("name", list(variations()))
def test_an_estimate_differs_by_the_kl_term_alone(framework: str, name: str) -> None:
    varied = estimate(Plan(variation=name, framework=framework))
    same = estimate(Plan(method="grpo", framework=framework, kl="none"))
    whole = estimate(Plan(method="grpo", framework=framework))
    assert (varied.device_bytes, varied.step_seconds) == (same.device_bytes, same.step_seconds)
    assert varied.step_seconds is not None and whole.step_seconds is not None
    assert varied.step_seconds < whole.step_seconds, "a reference scores no response"
    sampled = estimate(Plan(variation=name, resampling_factor=3.0))
    once = estimate(Plan(variation=name))
    assert sampled.step_seconds and once.step_seconds
    assert sampled.step_seconds > once.step_seconds, "dynamic sampling generates more"
