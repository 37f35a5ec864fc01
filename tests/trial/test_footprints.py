"""An estimate's figures as a trial keeps them, and those of before there were intervals."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from planner.answer import to_json
from planner.estimate import estimate
from planner.plan import Plan
from planner.trial.ask.footprints import figures_of, from_data

NEW = ("low_seconds", "high_seconds", "seconds_error")


def test_the_interval_is_kept() -> None:
    footprint = estimate(Plan())
    found = figures_of(footprint)
    assert (found.low_seconds, found.high_seconds) == (
        footprint.low_seconds,
        footprint.high_seconds,
    )
    rollout = found.phase("rollout")
    assert rollout and rollout.seconds and rollout.low_seconds and rollout.high_seconds
    assert rollout.low_seconds <= rollout.seconds <= rollout.high_seconds
    assert rollout.seconds_error and "published" in rollout.seconds_error


def test_a_file_of_before_has_none() -> None:
    data: dict[str, Any] = to_json(estimate(Plan()))
    for one in (data, *data["phases"]):
        for key in NEW:
            del one[key]
        one.pop("times", None)
    found = from_data(data)
    assert found.seconds and found.low_seconds is None and found.seconds_error is None


@pytest.mark.parametrize("value", [-1.0, "fast", float("1e12")])
def test_an_interval_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(pydantic.ValidationError, match="low_seconds"):
        from_data({**to_json(estimate(Plan())), "low_seconds": value})
