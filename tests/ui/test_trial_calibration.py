"""Corrections by stored trials: shown, applied on request, in the link, and taken off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.plan.factors import factors_from_text
from planner.plan.query import to_query
from planner.trial.ask.result import TrialResult
from planner.trial.history import History
from trial.scaled import PLAN, PROCESSOR, other, scaled
from ui import opened_pages

APPLY = "calibration-apply"
TRIALS = [scaled(number, share) for number, share in enumerate((1.02, 1.3, 1.05), 1)]


@pytest.fixture(autouse=True)
def _on(own_trials: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_trials.mkdir()
    monkeypatch.setenv("HEADROOM_TRIALS", "1")


def opened(page: str = "trial") -> AppTest:
    return opened_pages.opened(page, **to_query(PLAN))


def words(app: AppTest) -> str:
    text = "\n".join(str(part.value) for kind in (app.markdown, app.caption) for part in kind)
    return text.replace("\\", "")


def has_button(app: AppTest) -> bool:
    return APPLY in {button.key for button in app.button}


def test_the_medians_are_shown_and_nothing_is_applied_unasked() -> None:
    History().add(*TRIALS)
    app = opened()
    (table,) = [one.value for one in app.dataframe if "Measured beside estimate" in one.value]
    row = table[(table["Phase"] == "policy backward") & (table["Quantity"] == "requested")]
    assert row[["Measured beside estimate", "Lowest", "Highest", "Trials"]].values.tolist() == [
        ["+5.0%", "+2.0%", "+30.0%", "3"]
    ]
    assert "the medians of 3 trials" in words(app)
    assert "calibration" not in app.query_params


def test_applied_it_is_in_the_link_is_said_on_plan_and_comes_off() -> None:
    History().add(*TRIALS)
    app = opened()
    app.button(key=APPLY).click().run()
    assert not app.exception
    factors = factors_from_text("".join(app.query_params["calibration"]))
    found = factors.of("estimate", "policy backward", "device")
    assert found is not None and (found.factor, found.trials) == (pytest.approx(1.05, 1e-3), 3)
    assert "Without them: Fits" in words(app) and not has_button(app)
    app.switch_page("pages/plan.py").run()
    assert "Without them: Fits" in words(app) and "Corrected by trials" in words(app)
    app.button(key="calibration-off").click().run()
    assert "calibration" not in app.query_params and "Corrected" not in words(app)
    assert "3 stored trials of this method on this card" in words(app)


def test_plan_states_the_error_that_trials_have_shown_and_applies_them_when_asked() -> None:
    History().add(*TRIALS)
    app = opened("plan")
    said = re.search(r"Error of the peak: −23\.1% to \+\d\.\d%; (.*?) of SFT", words(app))
    assert said and re.fullmatch(r"3 stored trials and \d+ committed measurements", said[1])
    assert "calibration" not in app.query_params
    app.button(key=APPLY).click().run()
    assert not app.exception
    assert "calibration" in app.query_params and not has_button(app)


def test_a_visitor_who_may_run_no_trials_sees_no_errors_of_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    History().add(*TRIALS)
    monkeypatch.setenv("HEADROOM_TRIALS", "0")
    found = words(opened("plan"))
    assert re.search(
        r"Error of the peak: [−+].*; \d+ committed measurements of SFT on H100 80GB SXM5 and H200",
        found,
    )
    assert "stored trial" not in found and "−23.1%" not in found


@pytest.mark.parametrize(
    "result",
    [
        scaled(1, 1.1, device=PROCESSOR),
        scaled(2, 1.1, environment=other(torch="2.12.0+cu130")),
        scaled(3, 1.1, censored=True),
        scaled(4, 1.1, status="stopped"),
    ],
    ids=["processor", "torch", "censored", "stopped"],
)
def test_trials_that_do_not_hold_for_the_plan_are_no_correction(result: TrialResult) -> None:
    History().add(result)
    app = opened()
    assert "nothing to calibrate the estimate with. CPU trials" in words(app)
    assert not has_button(app)
    plan = opened("plan")
    assert "of this method on this card" not in words(plan) and not has_button(plan)


def test_plan_says_nothing_of_the_history_where_trials_are_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    History().add(*TRIALS)
    monkeypatch.setenv("HEADROOM_TRIALS", "0")
    assert "stored trial" not in words(opened("plan"))
