"""What ``planner trials`` makes of folders: orphans, a history that is gone, damaged results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.__main__ import main
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.history import History
from planner.trial.history.intake import keep_all
from trial.history.results import PLAN, trial

NOBODY = 2**22 - 1
"""A process number that no process has."""


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))


def finished(number: int) -> TrialFolder:
    folder = TRIALS.new(request_of(PLAN))
    folder.finish(trial(number, id=folder.identifier))
    return folder


def listed(capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], str]:
    capsys.readouterr()
    assert main(["trials", "--json"]) == 0
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_a_trial_whose_process_is_gone_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    folder = TRIALS.new(request_of(PLAN))
    folder.own(NOBODY)
    [line], _ = listed(capsys)
    assert (line["id"], line["status"]) == (folder.identifier, "killed")
    assert main(["trials", "--show", folder.identifier]) == 0
    assert "killed from outside" in capsys.readouterr().out


def test_a_trial_under_way_is_left_to_its_process(capsys: pytest.CaptureFixture[str]) -> None:
    TRIALS.new(request_of(PLAN)).own()
    assert listed(capsys)[0] == []


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_history_that_is_gone_is_made_anew(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = {finished(number).identifier for number in (1, 2)}
    assert {line["id"] for line in listed(capsys)[0]} == ids
    for file in tmp_path.glob("trials.sqlite*"):
        file.unlink()
    if how == "emptied":
        (tmp_path / "trials.sqlite").touch()
    assert {line["id"] for line in listed(capsys)[0]} == ids


def test_a_trial_deleted_by_itself_does_not_come_back(tmp_path: Path) -> None:
    folders = [finished(number) for number in (1, 2)]
    history = History()
    assert keep_all(history) == 2
    history.delete([folders[0].identifier])
    assert keep_all(history) == 0
    assert [line.id for line in history.list()] == [folders[1].identifier]


def test_a_truncated_result_is_named_and_can_be_deleted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, broken = finished(1), finished(2)
    text = broken.result_file.read_text("utf-8")
    broken.result_file.write_text(text[: len(text) // 2])
    lines, said = listed(capsys)
    assert [line["id"] for line in lines] == [whole.identifier]
    assert said.startswith(f"note: The result of {broken.identifier} cannot be read")
    assert f"planner trials --delete {broken.identifier}" in said
    assert main(["trials", "--delete", broken.identifier]) == 0
    assert not broken.path.exists()
    assert listed(capsys)[1] == ""
