"""The offered shape is what its source counted; a log's two figures give a shape back."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.lengths.shape import lognormal
from planner.lengths.text import from_text, to_text
from planner.lengths.typical import logged, typical
from planner.plan import Plan
from planner.plan.length_words import named, offered, prompts, words
from planner.plan.lengths import at_longest, lengths_of


def cut(shape: object, cap: int) -> tuple[float, float]:
    """Mean and share at the cap."""
    text = to_text(shape)  # type: ignore[arg-type]
    lengths = lengths_of(Plan(response_tokens=cap, length_distribution=text))
    return float(lengths.mean), float(lengths.reaching(cap))


def test_the_offered_shape_is_cut_as_its_source_says() -> None:
    """97 to 99 % at 256 tokens, about 14 % at 1,024; 600 to 700 tokens are usual."""
    shape = typical(1024)
    assert 0.97 <= cut(shape, 256)[1] <= 0.99
    assert cut(shape, 1024)[1] == pytest.approx(0.14, abs=0.01)
    assert 600 <= cut(shape, 1024)[0] <= 700
    assert cut(typical(8192), 8192)[1] == pytest.approx(0.14, abs=0.01)


@given(st.integers(500, 20_000), st.floats(0.2, 0.9), st.floats(1.1, 4))
def test_a_log_gives_its_lognormal_back(mean: int, width: float, times: float) -> None:
    cap, shape = round(mean * times), lognormal(mean, round(mean * width))
    seen, share = cut(shape, cap)
    assume(0.01 < share < 0.6)
    found = logged(seen, share, cap)
    # The share is told to a bin's width, which is up to a fiftieth of the responses.
    assert cut(found, cap)[0] == pytest.approx(seen, rel=0.01)
    assert cut(found, cap)[1] == pytest.approx(share, abs=0.025)


def test_logged_by_hand() -> None:
    """A half cut: the median is the cap, and the mean below it follows from the width alone."""
    found = logged(800, 0.5, 1000)
    mean, share = cut(found, 1000)
    assert mean == pytest.approx(800, rel=0.005) and share == pytest.approx(0.5, abs=0.012)


@pytest.mark.parametrize(
    ("mean", "share", "cap", "says"),
    [
        (500, 0.0, 1000, "cap cuts"),
        (500, 1.0, 1000, "cap cuts"),
        (1000, 0.1, 1000, "cannot have"),
        (90, 0.1, 1000, "cannot have"),
        (float("nan"), 0.1, 1000, "cannot have"),
        (500, float("nan"), 1000, "cap cuts"),
        (500, 0.1, 0, "cap of 0"),
    ],
)
def test_what_no_lognormal_has_is_refused(mean: float, share: float, cap: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        logged(mean, share, cap)


def test_a_plan_says_what_its_time_rests_on() -> None:
    plan = Plan(response_tokens=1024)
    assert words(plan) == "every response at the 1,024-token limit"
    typical = plan.changed(length_distribution=offered(plan))
    assert "14% cut at 1,024" in words(typical)
    assert offered(typical) == ""
    counted = plan.changed(length_distribution="1~hist_100~1_300~1")
    assert words(counted) == "responses of 200 tokens on average (counted, at most 300)"
    even = plan.changed(length_distribution="1~uniform_100~900")
    assert words(even) == "responses of 500 tokens on average (as often from 100 to 900)"
    assert prompts(plan) == "every prompt at the 512-token limit"
    assert prompts(plan.changed(mean_prompt_tokens=90)) == "prompts of 90 tokens on average"


def test_a_change_is_told_without_its_text() -> None:
    assert named("") == "all at the limit"
    assert named("1~hist_5~1_900~2") == "counted, at most 900 tokens"
    assert named("1~uniform_5~900") == "from 5 to 900 tokens"
    assert named("1~lognormal_800~700") == "lognormal of 800 ± 700 tokens"


def test_nothing_is_offered_where_nothing_is_sampled() -> None:
    assert offered(Plan(method="sft")) == ""
    assert offered(Plan(batch_shape="full")) == ""
    assert offered(Plan(method="grade")) == ""


def test_a_step_is_really_run_at_the_longest() -> None:
    plan = Plan(response_tokens=1024, validation_response_tokens=1024)
    assert at_longest(plan) is plan
    counted = at_longest(plan.changed(length_distribution="1~hist_100~1_300~1"))
    assert (counted.response_tokens, counted.validation_response_tokens) == (300, 300)
    assert counted.length_distribution == ""
    family = at_longest(plan.changed(length_distribution=to_text(from_text("1~lognormal_50~9"))))
    assert family == plan
    assert at_longest(plan.changed(mean_prompt_tokens=90)) == plan
