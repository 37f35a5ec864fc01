"""A real trial is in the history when its command ends; a history out of reach costs no result."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.trial.ask.process import TRIALS
from planner.trial.history import History
from planner.trial.history.intake import keep_all
from trial.running import command, result_of, tiny


def test_a_trial_is_kept(tmp_path: Path) -> None:
    done = command(tiny("sft"), data=tmp_path)
    result = result_of(done)
    assert done.returncode == 0 and "note:" not in done.stderr
    history = History(f"sqlite:///{tmp_path}/trials.sqlite")
    assert history.get(result.id) == result
    assert keep_all(history, tmp_path) == 0


def test_a_history_out_of_reach_leaves_the_result_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADROOM_HISTORY_URL", f"postgresql://me:secret@/t?host={tmp_path}")
    done = command(tiny("sft"), data=tmp_path)
    result = result_of(done)
    assert done.returncode == 0 and result.status == "completed"
    [folder] = TRIALS.all(tmp_path)
    assert "cannot be reached" in done.stderr and str(folder.result_file) in done.stderr
    assert "secret" not in done.stderr
    monkeypatch.delenv("HEADROOM_HISTORY_URL")
    history = History(f"sqlite:///{tmp_path}/trials.sqlite")
    assert keep_all(history, tmp_path) == 1
    assert history.get(result.id) == result
