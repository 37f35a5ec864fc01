"""GPUs with fewer tokens wait for the one with the most."""

from __future__ import annotations

from typing import Any

import pytest

from planner.estimate import estimate
from planner.footprint import Phase
from planner.plan import Plan
from planner.plan.lengths import lengths_of
from planner.setup.quantities import quantities

BASE: dict[str, Any] = {
    **{"gpus": 8, "response_tokens": 4096, "prompts_per_step": 128, "prompts_per_update": 64},
    **{"micro_batch_size": 4, "logprob_micro_batch_size": 8},
}
TAIL = "1~lognormal_1100~900"
WAITING = "waiting for the GPU with the longest rows"


def backward(**changes: Any) -> Phase:
    phases = estimate(Plan(**{**BASE, **changes})).phases
    return next(phase for phase in phases if phase.name == "policy backward")


def waiting(phase: Phase) -> float:
    return sum(float(term.seconds) for term in phase.times if term.name == WAITING)


def test_nobody_waits_where_rows_are_of_one_length() -> None:
    assert WAITING not in {term.name for term in backward().times}
    assert waiting(backward(length_distribution="1~hist_900~1")) == 0


def test_the_pass_takes_as_long_as_the_longest_rows_of_any_gpu_take() -> None:
    """Against a plan whose every response is as long as the longest of 4 rows on each of 8 GPUs."""
    plan = Plan(**BASE, length_distribution=TAIL)
    longest = round(float(lengths_of(plan).longest_of(4 * 8)))
    uneven, even = backward(length_distribution=TAIL), backward(response_tokens=longest)
    assert quantities(plan).training.imbalance > 1.3
    assert waiting(uneven) > 0.2 * float(uneven.seconds or 0)
    assert uneven.seconds == pytest.approx(even.seconds, rel=0.03)


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-0.5B", "allenai/OLMoE-1B-7B-0924"])
def test_what_only_meets_the_head_waits_for_no_layers(model: str) -> None:
    """Intuitor's self-certainty: the head once more over the longest rows, and no layer with it."""
    short = {"micro_batch_size": 1, "prompt_tokens": 64, "length_distribution": "1~hist_32~1_96~1"}
    plan = Plan(**{**BASE, **short, "response_tokens": 128}, model=model, method="intuitor")
    longest = round(float(lengths_of(plan).longest_of(1 * 8)))
    even = plan.changed(length_distribution="", response_tokens=longest)
    uneven_seconds, even_seconds = (
        sum(phase.seconds or 0 for phase in estimate(one).phases if phase.name == "old log-probs")
        for one in (plan, even)
    )
    assert uneven_seconds == pytest.approx(even_seconds, rel=0.03)


def test_who_deals_tokens_out_evenly_does_not_wait() -> None:
    assert waiting(backward(length_distribution=TAIL, framework="verl")) == 0


def test_one_gpu_waits_for_none() -> None:
    alone = backward(length_distribution=TAIL, gpus=1, gpus_per_node=1)
    assert waiting(alone) == pytest.approx(0)
