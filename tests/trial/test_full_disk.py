"""A disk without room: the measurement is stored in the place kept for it, or at least printed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from planner.jobs.folder import RESERVE, RESERVE_BYTES
from planner.plan.query import to_query_string
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.ask.result import read_result, result_json
from trial.history.results import PLAN, trial
from trial.running import ROOT, environment, tiny

FULL = """
import errno, os, tempfile
made = tempfile.mkstemp

def full(*given, **named):
    place = os.fspath(named["dir"])
    said = os.path.join(place, "progress.jsonl")
    if os.path.exists(said) and '"measuring"' in open(said).read():
        if {forever} or os.path.exists(os.path.join(place, "reserve")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return made(*given, **named)

tempfile.mkstemp = full
"""
"""Plays a disk that is full once the steps are measured, but for what is kept on it."""


def run(forever: bool, tmp_path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "sitecustomize.py").write_text(FULL.format(forever=forever))
    return subprocess.run(
        [sys.executable, "-m", "planner", "trial", to_query_string(tiny("sft")), "--json", *flags],
        cwd=ROOT,
        env={**environment(tmp_path / "data"), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def listed(data: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "planner", "trials", "--json"],
        cwd=ROOT,
        env=environment(data),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_disk_that_fills_during_a_trial_loses_nothing(tmp_path: Path) -> None:
    done = run(False, tmp_path)
    result = read_result(done.stdout.splitlines()[-1])
    assert (done.returncode, result.status) == (0, "completed"), done.stderr
    assert result.measured is not None and not any("not stored" in one for one in result.notes)
    [folder] = TRIALS.all(tmp_path / "data")
    assert folder.result() == result
    assert not list(folder.path.glob("*.part")) and not (folder.path / RESERVE).exists()
    assert [one["id"] for one in listed(tmp_path / "data")] == [result.id]


def test_where_nothing_can_be_stored_the_measurement_is_printed(tmp_path: Path) -> None:
    done = run(True, tmp_path)
    result = read_result(done.stdout.splitlines()[-1])
    assert (done.returncode, result.status) == (0, "completed"), done.stderr
    assert result.measured is not None
    [folder] = TRIALS.all(tmp_path / "data")
    [said] = [one for one in result.notes if "not stored" in one]
    assert str(folder.path) in said and "No space left" in said and "HEADROOM_DATA" in said
    assert folder.result() is None and not list(folder.path.glob("*.part"))


def full(monkeypatch: pytest.MonkeyPatch, folder: TrialFolder) -> None:
    made = tempfile.mkstemp

    def none(*given: Any, **named: Any) -> tuple[int, str]:
        if (folder.path / RESERVE).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return made(*given, **named)

    monkeypatch.setattr(tempfile, "mkstemp", none)


def test_the_place_that_is_kept_becomes_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = TRIALS.new(request_of(PLAN), tmp_path)
    folder.reserve()
    kept = (folder.path / RESERVE).stat()
    assert kept.st_size == RESERVE_BYTES and kept.st_blocks * 512 >= RESERVE_BYTES
    full(monkeypatch, folder)
    assert folder.finish(trial(1)) and folder.result() == trial(1)
    assert not folder.finish(trial(2)) and folder.result() == trial(1)
    assert sorted(os.listdir(folder.path)) == ["request.json", "result.json"]
    assert len(result_json(trial(1))) < RESERVE_BYTES


def test_a_folder_that_may_not_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    place = tmp_path / "file" / "data"
    done = subprocess.run(
        [sys.executable, "-m", "planner", "trial", to_query_string(PLAN)],
        cwd=ROOT,
        env=environment(place),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("HEADROOM_DATA: ") and str(place) in done.stderr
    assert "Not a directory" in done.stderr and "Nothing ran" in done.stderr
    assert "Errno" not in done.stderr


def test_a_result_that_cannot_go_where_it_should_is_printed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    out = tmp_path / "file" / "result.json"
    done = run(False, tmp_path, "--out", str(out))
    result = read_result(done.stdout.splitlines()[-1])
    assert result.status == "completed" and done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"out: {out} cannot be written: ")
    assert f"--show {result.id}" in done.stderr
