"""What a person may choose of a trial, as the request that the page then makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.trial.ask.request import SNAPSHOT
from planner.ui.trial import inputs as trial_inputs
from ui.trial_page import (
    PLAN,
    START,
    StandIn,
    buttons,
    looked_at,
    opened,
    press,
    result,
    standing_in,
    words,
)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return standing_in(monkeypatch)


def test_choices_of_how_it_runs_are_asked_for(stand_in: StandIn) -> None:
    app = opened()
    app.number_input(key="trial-steps").set_value(7)
    app.number_input(key="trial-minutes").set_value(2)
    app.selectbox(key="trial-lengths").set_value("random")
    press(looked_at(app), START)
    (asked,) = stand_in.asked
    assert (asked.steps, asked.limit_seconds, asked.lengths) == (7, 120.0, "random")


def test_a_cap_and_depths_are_asked_for_and_said(stand_in: StandIn) -> None:
    app = opened()
    app.number_input(key="trial-cap").set_value(24.0)
    app.selectbox(key="trial-layers").set_value("two")
    looked_at(app)
    app.number_input(key="trial-depth-1").set_value(6)
    assert "of which 2 and 6 are run" in words(looked_at(app))
    press(app, START)
    (asked,) = stand_in.asked
    assert (asked.cap_bytes, asked.depths) == (24 * 2**30, (2, 6))
    app.selectbox(key="trial-layers").set_value("all")
    assert "fewer where they do not fit" not in words(looked_at(app))


def test_a_sharded_plan_runs_as_one_rank_or_as_all_of_them(stand_in: StandIn) -> None:
    assert not opened().get("trial-processes")
    app = opened(PLAN.changed(gpus=2, sharding="fsdp2"))
    assert "as rank 0 of 2" in words(app)
    app.selectbox(key="trial-processes").set_value(2)
    assert "as 2 processes" in words(looked_at(app))
    press(app, START)
    assert stand_in.asked[0].processes == 2
    keys = {box.key for box in opened(PLAN.changed(gpus=16, sharding="fsdp2")).selectbox}
    assert "trial-processes" not in keys  # more than run together on a processor


def test_a_model_folder_is_for_somebody_on_their_own_machine(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = "trial-model-folder"
    assert folder not in {box.key for box in opened().text_input}
    monkeypatch.setattr(trial_inputs, "own_machine", lambda: True)
    app = opened()
    app.text_input(key=folder).set_value(str(tmp_path / "nowhere"))
    said = words(looked_at(app))
    assert "model_folder" in said and "is no folder on this machine" in said
    assert START not in buttons(app)
    app.text_input(key=folder).set_value(f" {tmp_path} ")
    press(looked_at(app), START)
    assert stand_in.asked[0].model_folder == str(tmp_path.resolve())


def test_allocations_are_kept_when_asked_for_and_offered_with_the_answer(
    stand_in: StandIn,
) -> None:
    app = opened()
    app.toggle(key="trial-snapshot").set_value(True)
    press(looked_at(app), START)
    folder = stand_in.folder
    assert folder is not None and stand_in.asked[0].snapshot == SNAPSHOT
    (folder.path / SNAPSHOT).write_text("{}")
    folder.finish(result(folder.identifier))
    assert "trial-allocations" in {one.key for one in looked_at(app).get("download_button")}
    (folder.path / SNAPSHOT).unlink()
    assert "trial-allocations" not in {one.key for one in looked_at(app).get("download_button")}
