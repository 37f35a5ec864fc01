"""Late out of memory: from which length on, and how soon."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.estimate import estimate
from planner.late import _beyond, lateness
from planner.plan import Plan

TAIL = "1~hist_500~900_1500~90_3000~9_9000~1"
BASE: dict[str, Any] = {
    **{"gpus": 8, "response_tokens": 16_384, "prompts_per_step": 64, "prompts_per_update": 64},
    **{"micro_batch_size": 4, "logprob_micro_batch_size": 4, "prompt_tokens": 512},
}


def at(tokens: int, **more: Any) -> int:
    """The peak where every response has so many tokens, by a single estimate."""
    return estimate(Plan(**{**BASE, **more, "response_tokens": tokens})).device_bytes


@pytest.mark.parametrize("more", [{}, {"batch_shape": "packed", "attention": "flash"}])
def test_the_longest_response_that_fits_is_told_to_a_token(more: dict[str, Any]) -> None:
    footprint = estimate(Plan(**BASE, **more, length_distribution=TAIL))
    assert footprint.verdict.word == "out of memory"
    late = lateness(footprint)
    assert late is not None and 1 < late.fitting_tokens < 9000
    budget = footprint.budget_bytes
    assert at(late.fitting_tokens, **more) <= budget < at(late.fitting_tokens + 1, **more)
    assert late.usual_device_bytes == at(late.usual_tokens, **more)


def test_the_odds_of_a_step_are_those_of_its_responses() -> None:
    """512 responses a step, one in a thousand of 9,000 tokens."""
    footprint = estimate(Plan(**BASE, length_distribution=TAIL))
    late = lateness(footprint)
    assert late is not None and late.fitting_tokens > 3000
    assert late.beyond == pytest.approx(1 - 0.999**512)
    assert late.reached == pytest.approx(1 - 0.999**512)
    assert "40% of steps" in late.sentence and "about 2 steps" in late.sentence


def test_what_fits_at_the_longest_is_never_late() -> None:
    plan = Plan(**{**BASE, "micro_batch_size": 1, "logprob_micro_batch_size": 1})
    assert lateness(estimate(plan)) is None
    late = lateness(estimate(plan.changed(length_distribution="1~hist_100~1_900~1")))
    assert late is not None
    assert (late.fitting_tokens, late.longest_tokens, late.beyond) == (900, 900, 0)
    assert late.sentence.endswith("responses of 900 tokens; every step has one that long.")


def test_a_plan_that_does_not_start_is_not_late() -> None:
    footprint = estimate(Plan(**BASE, length_distribution=TAIL))
    assert lateness(replace(footprint, blockers=("no",))) is None


def test_a_tail_that_no_run_meets_is_not_called_an_end() -> None:
    """Its cap does not fit, and no response comes near it."""
    late = lateness(estimate(Plan(**BASE, length_distribution="1~lognormal_500~50")))
    assert late is not None and late.fitting_tokens < late.longest_tokens == 16_384
    assert late.sentence.endswith("tokens fit; next to no step has longer ones.")


def test_packed_rows_add_up() -> None:
    """Of two rows of 10 or 100 tokens each, both long: a quarter of the micro-batches."""
    packed = {"batch_shape": "packed", "attention": "flash", "gpus": 2, "gpus_per_node": 2}
    sizes = {"micro_batch_size": 2, "logprob_micro_batch_size": 2, "responses_per_prompt": 2}
    plan = Plan(
        **{**BASE, **packed, **sizes, "prompts_per_step": 8, "prompts_per_update": 8},
        length_distribution="1~hist_10~1_100~1",
    )
    assert _beyond(plan, 60) == pytest.approx(1 - 0.75**8)
    assert _beyond(plan, 50) == pytest.approx(1 - 0.25**8)
    assert _beyond(plan, 100) == 0
    alone = plan.changed(batch_shape="padded")
    assert _beyond(alone, 60) == pytest.approx(1 - 0.5**16)
    assert _beyond(alone, 10) == pytest.approx(1 - 0.5**16)
    budget = plan.changed(max_tokens_per_micro_batch=20_000)
    assert _beyond(budget, 60) == 1
