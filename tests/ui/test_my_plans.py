"""My plans: kept and opened in the sidebar, with their trials, renamed and deleted on Compare."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.plan import Plan
from planner.plan.presets import presets
from planner.trial.history import History
from planner.trial.history.plans import KeptPlans
from planner.ui.kept import table_key
from trial.history.results import PLAN, trial
from ui.opened_pages import link_of, opened, words


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_TRIALS", "1")
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))
    monkeypatch.delenv("HEADROOM_HISTORY_URL", raising=False)


def listed(app: AppTest) -> list[str]:
    app.session_state["open:kept-plans"] = True
    app.run()
    assert not app.exception
    return [one.label for one in app.button if str(one.key).startswith("kept:")]


def on_compare() -> AppTest:
    app = opened("compare", v="9", preset="grpo-7b@1")
    assert not app.exception
    return app


def chosen(app: AppTest, place: int) -> AppTest:
    """Compare with a line of the table chosen, for as long as the list is the same."""
    key = table_key(KeptPlans().list())
    app.session_state[key] = {"selection": {"rows": [place], "columns": []}}
    app.run()
    assert not app.exception
    return app


def test_a_plan_is_kept_under_a_name_and_opened_again(tmp_path: Path) -> None:
    app = opened(v="9", preset="ppo-7b@1", steps="77")
    assert not (tmp_path / "trials.sqlite").exists(), "looking at a plan makes no store"
    assert listed(app) == []
    app.text_input(key="kept-name").set_value("PPO, *77* <b>steps</b>").run()
    app.button(key="keep-plan").click().run()
    assert "Kept as" in words(app) and len(listed(app)) == 1
    app.button(key="keep-plan").click().run()
    assert "There is a plan called" in words(app) and len(listed(app)) == 1
    other = opened(v="9", preset="grpo-7b@1")
    assert len(listed(other)) == 1
    next(one for one in other.button if str(one.key).startswith("kept:")).click().run()
    assert link_of(other)["steps"] == "77" and link_of(other)["method"] == "ppo"


def test_a_visitor_who_may_run_no_trials_sees_none(monkeypatch: pytest.MonkeyPatch) -> None:
    KeptPlans().keep("mine", Plan())
    monkeypatch.setenv("HEADROOM_TRIALS", "0")
    assert listed(opened(v="9", preset="grpo-7b@1")) == []
    assert "My plans" not in [one.value for one in on_compare().subheader]


def test_compare_shows_planned_against_measured_where_a_trial_is_there() -> None:
    assert "it is listed here" in words(on_compare())
    kept = KeptPlans()
    kept.keep("with a trial", PLAN)
    kept.keep("without", presets()["grpo-7b@1"].plan)
    History().add(trial(1))
    (table,) = [one.value for one in on_compare().dataframe if "Measured" in one.value.columns]
    rows = {row["Name"]: row for _, row in table.iterrows()}
    assert rows["without"]["Measured"] == "" and "fits" in rows["without"]["Planned"]
    assert rows["with a trial"]["Measured"]
    assert "SFT of Qwen2.5-0.5B" in rows["with a trial"]["Plan"]


def test_a_plan_is_renamed_pinned_opened_and_deleted_on_compare() -> None:
    KeptPlans().keep("first", presets()["ppo-7b@1"].plan)
    (one,) = KeptPlans().list()
    app = chosen(on_compare(), 0)
    app.text_input(key=f"kept-name-{one.id}").set_value("**better** name").run()
    assert [each.name for each in KeptPlans().list()] == ["**better** name"]
    app = chosen(app, 0)
    app.button(key="kept-pin").click().run()
    (pinned,) = app.session_state["pins"]
    assert (pinned.name, pinned.plan) == ("**better** name", presets()["ppo-7b@1"].plan)
    app = chosen(app, 0)
    app.button(key="kept-open").click().run()
    assert app.session_state["draft"].plan == presets()["ppo-7b@1"].plan
    app = chosen(app, 0)
    app.button(key="kept-delete").click().run()
    assert not app.exception and KeptPlans().list() == []


def test_a_name_that_is_taken_is_refused_in_a_sentence() -> None:
    KeptPlans().keep("first", PLAN)
    KeptPlans().keep("second", PLAN)
    names = [one.name for one in KeptPlans().list()]
    place = names.index("second")
    second = KeptPlans().list()[place]
    app = chosen(on_compare(), place)
    app.text_input(key=f"kept-name-{second.id}").set_value("first").run()
    assert "There is a plan called first already" in words(app)
    assert sorted(one.name for one in KeptPlans().list()) == ["first", "second"]


def test_a_row_that_is_no_plan_can_only_be_renamed_and_deleted() -> None:
    kept = KeptPlans()
    kept.keep("odd", PLAN)
    with kept.history.transaction(writes=True) as connection:
        connection.exec_driver_sql("UPDATE headroom_plans SET link = 'v=9&gpus=x'")
    app = chosen(on_compare(), 0)
    assert "kept-open" not in [button.key for button in app.button]
    app.button(key="kept-delete").click().run()
    assert not app.exception and kept.list() == []
