"""The history on the Trial page, and its rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.plan import Plan
from planner.plan.methods import methods
from planner.plan.query import to_query_string
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.footprints import FootprintFigures, PhaseFigures
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.ask.result import Device, Environment, TrialResult, result_json
from planner.trial.history import Filter, History
from planner.trial.history.exchange import read_trials
from planner.trial.history.store import Added
from planner.ui.trial import history as trial_history
from planner.ui.trial import history_rows as rows
from planner.wording.display import UNITS

APP = str(Path(__file__).parents[2] / "app.py")
PLAN = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", framework="plain", gpus=1)
LONGER = PLAN.changed(response_tokens=PLAN.response_tokens + 7)
GIB = UNITS["GiB"]


def figures(sizes: dict[str, int], seconds: float) -> FootprintFigures:
    phases = (
        PhaseFigures(name=name, source="trial", requested_bytes=size, seconds=seconds)
        for name, size in sizes.items()
    )
    return FootprintFigures(source="trial", plan={}, phases=tuple(phases))


def result(identifier: str, plan: Plan = PLAN, gib: int = 2, **changes: Any) -> TrialResult:
    given: dict[str, Any] = {
        "id": identifier,
        "status": "completed",
        "created": "2026-01-31T12:00:00Z",
        "seconds": 12.0,
        "plan": to_query_string(plan),
        "device": Device(kind="cpu", name="A processor"),
        "environment": Environment(versions={"torch": "2.13.0"}),
        "measured": figures({"policy forward": gib * 2**30}, 2.0),
    }
    return TrialResult(**{**given, **changes})


FIRST = result("first-trial")
SECOND = result("second-trial", LONGER, 3, created="2026-01-31T13:00:00Z")
STOPPED = result("stopped-trial", created="2026-01-31T14:00:00Z", status="stopped", measured=None)


@pytest.fixture
def history(own_trials: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv("HEADROOM_TRIALS", "1")
    own_trials.mkdir()
    found = History()
    found.add(FIRST, SECOND, STOPPED)
    return found


def opened() -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600)
    app.run()
    app.switch_page("pages/trial.py")
    return looked_at(app)


def looked_at(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def words(app: AppTest) -> str:
    shown = (app.markdown, app.caption, app.info, app.success, app.warning, app.error)
    return "\n".join(str(part.value) for kind in shown for part in kind).replace("\\", "")


def listed(app: AppTest) -> list[str]:
    return [name for one in app.dataframe if "Trial" in one.value for name in one.value["Trial"]]


def chosen(app: AppTest, *places: int) -> AppTest:
    key = trial_history.table_key(History().list(Filter(limit=trial_history.LISTED)))
    app.session_state[key] = {"selection": {"rows": [*places], "columns": []}}
    return looked_at(app)


def test_every_stored_trial_is_listed_newest_first(history: History) -> None:
    app = opened()
    assert listed(app) == ["stopped-trial", "second-trial", "first-trial"]
    assert "Select one trial to open it" in words(app)
    [table] = [one.value for one in app.dataframe if "Trial" in one.value]
    assert set(table["Method"]) <= {method.title for method in methods().values()}


def test_an_empty_history_says_how_it_fills(own_trials: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HEADROOM_TRIALS", "1")
    assert "No trial is stored yet" in words(opened())


def test_filters_leave_what_is_meant(history: History) -> None:
    app = opened()
    app.selectbox(key="trial-filter-status").set_value("stopped")
    assert listed(looked_at(app)) == ["stopped-trial"]
    app.selectbox(key="trial-filter-status").set_value("")
    app.text_input(key="trial-filter-device").set_value("h100")
    assert listed(looked_at(app)) == [] and "No stored trial matches" in words(app)
    app.text_input(key="trial-filter-device").set_value("processor")
    app.selectbox(key="trial-filter-method").set_value("grpo")
    assert listed(looked_at(app)) == []
    app.selectbox(key="trial-filter-method").set_value("sft")
    assert len(listed(looked_at(app))) == 3


def test_one_opens(history: History) -> None:
    opening = chosen(opened(), 2)
    assert "Trial first-trial" in words(opening)
    assert any("Memory, measured" in one.value for one in opening.dataframe)
    opening.button(key="trial-open-plan").click().run()
    assert opening.session_state["draft"].plan == PLAN


def test_two_are_compared(history: History) -> None:
    app = chosen(opened(), 2, 1)
    tables = [one.value for one in app.dataframe if "Memory, difference" in one.value]
    assert len(tables) == 1 and tables[0]["Memory, difference"][0] == "+50.0%"
    before, after = f"{PLAN.response_tokens:,}", f"{LONGER.response_tokens:,}"
    assert f"{before} → {after}" in words(app)


def test_one_is_deleted_with_its_folder_and_only_that(history: History) -> None:
    folder = TRIALS.new(request_of(PLAN))
    folder.finish(result(folder.identifier))
    app = opened()
    place = listed(app).index(folder.identifier)
    chosen(app, place).button(key="trial-delete").click().run()
    assert not app.exception
    assert "1 trial deleted" in words(app)
    assert not folder.path.exists()
    assert {line.id for line in history.list()} == {"first-trial", "second-trial", "stopped-trial"}


def test_a_line_chosen_by_its_place_is_not_another_one_after_a_filter(history: History) -> None:
    app = chosen(opened(), 0)
    assert "Trial stopped-trial" in words(app)
    app.selectbox(key="trial-filter-status").set_value("completed")
    assert "Trial second-trial" not in words(looked_at(app))


def test_one_that_runs_is_not_deleted(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows.TRIALS, "forget", lambda folder: False)
    monkeypatch.setattr(rows.TRIALS, "find", lambda identifier: TrialFolder(Path(identifier)))
    assert not rows.deleted(history, "first-trial")
    assert history.get("first-trial") == FIRST


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_an_export_holds_what_is_meant_and_is_read_again(history: History, suffix: str) -> None:
    content = rows.exported(history, suffix, Filter(status="completed"))
    assert read_trials(content) == [SECOND, FIRST]
    if suffix == ".csv":
        assert len([*csv.DictReader(io.StringIO(content.decode()))]) == 2
    else:
        assert len(json.loads(content)["trials"]) == 2


@pytest.mark.parametrize(
    ("content", "said", "count"),
    [
        (result_json(result("fresh-trial")).encode(), "1 trial added.", 4),
        (result_json(FIRST).encode(), "0 trials added; 1 there already.", 3),
        (result_json(result("first-trial", gib=9)).encode(), "other figures, which stay", 3),
        (b"{}", "import: trial 1 of 1", 3),
        (b"\xff\xfe", "no text in UTF-8", 3),
    ],
)
def test_an_import_adds_or_says_why_not(
    history: History, content: bytes, said: str, count: int
) -> None:
    app = opened()
    app.file_uploader(key="trial-import-0").upload("trials.json", content, "application/json").run()
    assert not app.exception
    assert said in words(app)
    assert app.file_uploader(key="trial-import-1").value is None
    assert history.count() == count
    assert history.get("first-trial") == FIRST


def test_words_of_an_import() -> None:
    assert rows.imported_words(Added(added=("a", "b"))) == "2 trials added."


def test_what_differs_between_two_is_named() -> None:
    assert rows.changed(FIRST, result("again-trial")) == ""
    other = result("other-trial", device=Device(kind="cuda", name="A card"), environment=None)
    text = rows.changed(FIRST, other)
    assert "device: A processor → A card" in text and "torch: 2.13.0 → —" in text


def test_phases_of_either_stand_side_by_side() -> None:
    more = figures({"policy forward": 2**31, "optimizer step": 2**30}, 3.0)
    table = rows.side_by_side(FIRST, result("other-trial", measured=more), GIB)
    assert list(table["Phase"]) == ["policy forward", "optimizer step"]
    assert list(table["Memory, first"]) == ["2.0 GiB", "—"]
    assert list(table["Memory, difference"]) == ["0.00%", "—"]
    assert list(table["Time, difference"]) == ["+50.0%", "—"]


def test_nothing_of_the_history_is_shown_where_trials_are_off(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADROOM_TRIALS", "0")
    app = opened()
    assert not listed(app) and "first-trial" not in words(app)
    assert not [button for button in app.button if str(button.key).startswith("trial-")]
