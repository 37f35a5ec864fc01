"""GPUs with fewer tokens wait for the one with the most."""

from __future__ import annotations

from typing import Any

import pytest

from planner.estimate import estimate
from planner.footprint import Phase
from planner.plan import Plan
from planner.quantities import quantities

BASE: dict[str, Any] = {
    **{"gpus": 8, "response_tokens": 4096, "prompts_per_step": 128, "prompts_per_update": 64},
    **{"micro_batch_size": 4, "logprob_micro_batch_size": 8},
}
WAITING = "waiting for the GPU with the longest rows"


def backward(**changes: Any) -> Phase:
    phases = estimate(Plan(**{**BASE, **changes})).phases
    return next(phase for phase in phases if phase.name == "policy backward")


def waiting(phase: Phase) -> float:
    return sum(float(term.seconds) for term in phase.times if term.name == WAITING)


def test_nobody_waits_where_rows_are_of_one_length() -> None:
    assert WAITING not in {term.name for term in backward().times}
    assert waiting(backward(length_distribution="1~hist_900~1")) == 0


def test_others_wait_as_long_as_the_slowest_computes_more() -> None:
    tail = {"length_distribution": "1~lognormal_1100~900"}
    phase, passes = backward(**tail), quantities(Plan(**BASE, **tail)).training
    exposed = [term for term in phase.times if "not hide" in term.name]
    computed = float(phase.seconds or 0) - waiting(phase) - sum(float(t.seconds) for t in exposed)
    assert passes.imbalance > 1.3
    assert waiting(phase) == pytest.approx(computed * (passes.imbalance - 1))
    assert waiting(backward(**tail, framework="verl")) == 0


def test_one_gpu_waits_for_none() -> None:
    alone = backward(length_distribution="1~lognormal_1100~900", gpus=1, gpus_per_node=1)
    assert waiting(alone) == pytest.approx(0)
