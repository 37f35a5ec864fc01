"""Correction factors in a link: the round trip is the identity, and hostile text is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.plan import Plan
from planner.plan.factors import (
    HIGHEST,
    LOWEST,
    QUANTITIES,
    RUNGS,
    Factor,
    Factors,
    factors_from_text,
    factors_to_text,
)
from planner.plan.link import from_query, from_query_string
from planner.plan.methods import methods
from planner.plan.query import to_query, to_query_string

PHASES = ("policy backward", "old log-probs", "optimizer step", "critic update")
places = st.tuples(st.sampled_from(RUNGS), st.sampled_from(PHASES), st.sampled_from(QUANTITIES))
numbers = st.tuples(st.integers(int(LOWEST * 10**6), int(HIGHEST * 10**6)), st.integers(1, 10**6))


@st.composite
def calibrations(draw: st.DrawFn) -> Factors:
    found = draw(st.dictionaries(places, numbers, min_size=1, max_size=20))
    ordered = sorted(found.items(), key=lambda pair: pair[0][:2])
    return Factors(
        gpu=draw(st.sampled_from(("h100-80gb", "rtx-4090"))),
        method=draw(st.sampled_from(tuple(methods()))),
        torch=draw(st.sampled_from(("", "2.13.0+cu130"))),
        transformers="5.23.0",
        factors=tuple(
            Factor(*place, millionths / 10**6, trials) for place, (millionths, trials) in ordered
        ),
    )


@settings(deadline=None, max_examples=100)
@given(calibrations())
def test_a_link_carries_factors_beside_the_plan(factors: Factors) -> None:
    assert factors_from_text(factors_to_text(factors)) == factors
    plan = Plan()
    for short in (False, True):
        link = to_query_string(plan, short=short, calibration=factors)
        reading = from_query_string("https://headroom.example/?" + link)
        assert (reading.plan, reading.calibration) == (plan, factors)
        assert (reading.problems, reading.unknown) == ((), ())


def test_a_link_without_factors_is_as_it_was() -> None:
    assert "calibration" not in to_query(Plan())
    assert from_query({"preset": "grpo-7b@1"}).calibration is None
    assert from_query({"preset": "grpo-7b@1", "calibration": ""}).problems == ()


HEAD = "1~h100-80gb~grpo~2.13.0~5.23.0"
GOOD = HEAD + "_estimate~policy backward~requested~1.01~3"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "does not begin"),
        (HEAD, "holds no factor"),
        ("2" + GOOD[1:], "does not begin"),
        (GOOD.replace("h100-80gb", "<script>"), "the card"),
        (GOOD.replace("~grpo~", "~GRPO;rm~"), "the method"),
        (GOOD.replace("2.13.0", "2.13.0\x1b[2J"), "the version of torch"),
        (GOOD.replace("5.23.0", "５.23"), "the version of transformers"),
        (GOOD.replace("estimate", "trial"), "neither of"),
        (GOOD.replace("policy backward", "policy\nbackward"), "a phase"),
        (GOOD.replace("policy backward", "x" * 61), "a phase"),
        (GOOD.replace("requested", "everything"), "none of a phase's quantities"),
        (GOOD.replace("1.01", "0.49"), "outside 0.5 to 2.0"),
        (GOOD.replace("1.01", "2.000001"), "outside 0.5 to 2.0"),
        (GOOD.replace("1.01", "nan"), "the factor of"),
        (GOOD.replace("1.01", "1e0"), "the factor of"),
        (GOOD.replace("1.01", "-1"), "the factor of"),
        (GOOD.replace("1.01", "1_0"), "without quantity~factor~trials"),
        (GOOD.replace("1.01", "1." + "0" * 40), "the factor of"),
        (GOOD.replace("~3", "~0"), "the number of trials"),
        (GOOD.replace("~3", "~9999999"), "more than 1000000 trials"),
        (GOOD.replace("~3", ""), "without quantity~factor~trials"),
        (GOOD + "~requested~1.02~3", "twice"),
        (GOOD + "_" + GOOD.partition("_")[2], "twice"),
        (GOOD + "_", "neither of"),
        (HEAD + "_estimate~policy backward" + "~requested~1~1" * 401, "more than 400"),
        (GOOD + "_" * 20_000, "more than 16384"),
    ],
)
def test_hostile_factors_are_refused_and_the_plan_stands(text: str, says: str) -> None:
    reading = from_query({"preset": "grpo-7b@1", "calibration": text})
    assert reading.plan is not None and reading.calibration is None
    [problem] = reading.problems
    assert problem.field == "calibration"
    assert says in problem.message and problem.message.startswith("calibration ")
    assert problem.sentence.isprintable() and len(problem.sentence) < 300
    assert from_query({"preset": "grpo-7b@1", "calibration": GOOD}).problems == ()


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="1~_ abcestim.0987-+é\x00", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert from_query({"preset": "grpo-7b@1", "calibration": text}).plan is not None
