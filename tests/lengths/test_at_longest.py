"""Dry runs and trials run rows as long as the longest there can be, whatever their lengths are."""

from __future__ import annotations

import pytest

from planner.dryrun.ask import store
from planner.dryrun.ask.port import Port
from planner.plan import Plan
from planner.plan.lengths import at_longest
from planner.trial.ask.request import request_of

COUNTED = Plan(response_tokens=1024, length_distribution="1~hist_100~1_300~1")


def test_a_dry_run_is_found_by_its_longest_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(store, "load", lambda key, folder: asked.append(key))
    for plan in (COUNTED, at_longest(COUNTED), COUNTED.changed(length_distribution="")):
        assert Port().remembered(plan) is None
    assert asked[0] == asked[1] != asked[2]


def test_a_trial_is_asked_for_its_longest_rows() -> None:
    assert request_of(COUNTED).planned() == at_longest(COUNTED)
    assert request_of(COUNTED).planned().response_tokens == 300
