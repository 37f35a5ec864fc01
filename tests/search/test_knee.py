"""The knee of the front: as far as further dollars buy speed, and what it is against the lead."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost import cost
from planner.plan import Plan
from planner.search import Found, Point, Wish, search
from planner.search.check import lead
from planner.search.words import WORTH, against, knee, read_gpus

LARGE = Plan(
    model="Qwen/Qwen2.5-32B", framework="trl", gpu="h100-80gb", gpus=8, response_tokens=16384
)


def _point(usd: float, hours: float) -> Point:
    known: dict[str, Any] = {"usd": usd, "hours": hours, "seconds": hours}
    ends = {f"{end}_{name}": value for end in ("low", "high") for name, value in known.items()}
    return Point(changes={}, gpu="h100-80gb", gpus=1, word="fits", **known, **ends)


@pytest.mark.parametrize(
    ("front", "place"),
    [
        ([(100, 10), (101, 2.5), (122, 1.5)], 1),  # 60 % of the speed for the last dollars an hour
        ([(100, 10), (101, 2.5), (110, 1.25)], 2),
        ([(100, 10), (160, 9)], 0),
        ([(100, 10)], 0),
    ],
)
def test_the_knee_is_the_last_whose_dollars_buy_enough_speed(
    front: list[tuple[float, float]], place: int
) -> None:
    points = [_point(*each) for each in front]
    assert knee(points) is points[place]
    assert 0.6 < WORTH < 0.8


@pytest.fixture(scope="module")
def found() -> Found:
    return search(LARGE, Wish(goal="cheapest", max_gpus=64))


def test_a_few_per_cent_dearer_and_much_faster_is_named(found: Found) -> None:
    """Eight GPUs cost 1.5 % less than 32 and take four times as long: 32 has to be said."""
    (at,) = [one for one in found.recommendations if one.name == "knee"]
    own, other = cost(at.footprint), cost(lead(found.recommendations).footprint)
    assert own.usd_run and other.usd_run and own.hours_run and other.hours_run
    assert own.usd_run < 1.1 * other.usd_run and own.hours_run < other.hours_run / 2
    told = f"{own.usd_run / other.usd_run - 1:+.1%} cost, {other.hours_run / own.hours_run:.1f}×"
    assert f"{read_gpus(at.plan)}: {told} faster" in found.knee and told in at.why
    assert at.trade_offs == () == lead(found.recommendations).trade_offs


def test_no_plan_stands_twice_and_those_that_are_one_say_so(found: Found) -> None:
    plans = [one.plan for one in found.recommendations]
    assert len(set(plans)) == len(plans)
    names = [name for one in found.recommendations for name in one.names]
    assert sorted(names) == ["aggressive", "balanced", "conservative", "knee"]
    merged = [one.called.capitalize() for one in found.recommendations if one.also]
    assert all(f"{called} are the same plan" in found.same for called in merged)
    assert bool(merged) == bool(found.same)


def test_what_is_hardly_another_plan_is_not_named(found: Found) -> None:
    taken = lead(found.recommendations)
    paid = cost(taken.footprint)
    assert paid.usd_run and paid.hours_run
    assert against(_point(paid.usd_run * 1.01, paid.hours_run * 0.99), taken) == ""
    cheaper = _point(paid.usd_run * 0.8, paid.hours_run * 2)
    assert against(cheaper, taken) == "-20.0% cost, 2.0× slower"


def test_ties_of_a_goal_about_money_are_within_each_others_dollars(found: Found) -> None:
    assert found.ties
    named = {name: one for one in found.recommendations for name in one.names}
    for tie in found.ties:
        own, other = cost(named[tie.of].footprint), LARGE.changed(**tie.changes)
        assert other not in {one.plan for one in found.recommendations if tie.of in one.names}
        assert "$" in tie.figure and own.usd_run is not None
