"""Trials in processes of their own: kills, limits, stops, the queue, an app that starts anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.jobs.folder import alive
from planner.jobs.processes import JobState
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import TrialRequest, request_of
from planner.trial.ask.result import TrialResult
from trial.running import ROOT, command, environment, result_of, tiny, until, worker_of

State = JobState[TrialRequest, TrialResult]
PLAN = tiny("sft", "llama")
ENDLESS: dict[str, Any] = {"steps": 1000}
MOMENTS = ("imports", "dry run", "building", "first step", "measuring")


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def endless(**choices: Any) -> TrialRequest:
    return request_of(PLAN, **{**ENDLESS, **choices})


def state_of(folder: TrialFolder) -> State:
    state = TRIALS.look(folder)
    assert state is not None
    return state


def finished(folder: TrialFolder) -> State:
    return until(lambda: (s := state_of(folder)).stage == "finished" and s)


def heard(folder: TrialFolder, name: str) -> Any:
    return until(lambda: [event for event in folder.progress() if event["name"] == name])


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_worker_is_reported_with_its_reason(moment: str, tmp_path: Path) -> None:
    folder = TRIALS.start(endless(), tmp_path)
    heard(folder, moment)
    os.kill(worker_of(folder), signal.SIGKILL)
    result = finished(folder).result
    assert result is not None and result.status == "killed"
    assert "SIGKILL" in result.reason and "Headroom did not send that signal" in result.reason
    assert result.plan == endless().plan
    if moment in ("first step", "measuring"):
        assert result.predicted is not None and result.environment is not None
    # The device is free again: the next trial does not wait for ever.
    assert not (tmp_path / "devices" / "cpu" / "queue").exists() or not list(
        (tmp_path / "devices" / "cpu" / "queue").iterdir()
    )


def test_when_its_keeper_is_killed_the_worker_ends_and_the_trial_is_over(tmp_path: Path) -> None:
    folder = TRIALS.start(endless(), tmp_path)
    heard(folder, "building")
    worker, keeper = worker_of(folder), folder.owner_pid()
    assert keeper is not None
    os.kill(keeper, signal.SIGKILL)
    result = finished(folder).result
    assert result is not None and result.status == "killed"
    assert "left no result" in result.reason
    assert result.predicted is not None
    until(lambda: not alive(worker, None))
    assert TRIALS.forget(folder) and TRIALS.find(folder.identifier, tmp_path) is None


def test_trials_of_a_device_run_one_by_one_and_a_new_app_finds_them(tmp_path: Path) -> None:
    first = TRIALS.start(endless(), tmp_path)
    heard(first, "starting")
    second = TRIALS.start(request_of(PLAN, steps=1), tmp_path)
    until(lambda: state_of(second).latest("ahead") == 1)
    third = TRIALS.start(endless(), tmp_path)
    until(lambda: state_of(third).latest("ahead") == 2)
    assert not TRIALS.forget(first)
    heard(first, "measuring")
    # Another process that has not started them, as an app after its restart.
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from planner.trial.ask.process import TRIALS\n"
            "for one in TRIALS.states(): "
            "print(one.identifier, one.stage, one.latest('ahead'), one.latest('steps'))",
        ],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert sorted(told) == sorted(
        [
            f"{first.identifier} running 0 1002",
            f"{second.identifier} queued 1 0",
            f"{third.identifier} queued 2 0",
        ]
    )
    TRIALS.stop(third)
    waited = finished(third).result
    assert waited is not None and waited.status == "stopped" and "waited" in waited.reason
    TRIALS.stop(first)
    stopped = finished(first).result
    assert stopped is not None and stopped.status == "stopped"
    assert stopped.predicted is not None and stopped.measured is None
    done = finished(second).result
    assert done is not None and done.status == "completed"
    assert {one.stage for one in TRIALS.states(tmp_path)} == {"finished"}


@pytest.mark.parametrize(
    ("choices", "status", "said"),
    [
        ({"limit_seconds": 1.0}, ("timed out", "will not fit"), "1.00 s"),
        ({"host_limit_bytes": 120 * 2**20}, ("host memory",), "the limit is 120 MiB"),
    ],
)
def test_limits_end_a_trial(
    choices: Any, status: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """On a busy machine a trial may foresee that its time is not enough, and never start."""
    result = finished(TRIALS.start(endless(**choices), tmp_path)).result
    assert result is not None and result.status in status and result.measured is None
    assert said in " ".join((result.reason, *result.notes))


def test_a_cap_ends_the_command_with_a_result(tmp_path: Path) -> None:
    done = command(PLAN, "--cap-bytes", "4900000", "--truncate", "never", data=tmp_path)
    result = result_of(done)
    assert done.returncode == 3
    assert result.status == "out of memory" and result.out_of_memory is not None
    assert result.out_of_memory.phase == "policy backward"


def test_what_is_wrong_is_said_before_anything_starts(tmp_path: Path) -> None:
    for flag, value, field in (
        ("--device", "tpu", "device"),
        ("--depths", "4,x", "depths"),
        ("--steps", "0", "steps"),
        ("--model-folder", "/no/such", "model_folder"),
    ):
        done = command(PLAN, flag, value, data=tmp_path)
        assert done.returncode == 2 and done.stderr.startswith(field), done.stderr
    assert not (tmp_path / "trials").exists()


def test_a_damaged_folder_is_no_trial(tmp_path: Path) -> None:
    folder = tmp_path / "trials" / "20260101-000000-abcdef"
    folder.mkdir(parents=True)
    assert TRIALS.states(tmp_path) == []
    (folder / "request.json").write_text("{", "utf-8")
    assert TRIALS.states(tmp_path) == []
    assert TRIALS.find("../../etc", tmp_path) is None


def test_a_stop_before_its_process_can_answer_is_a_stop(tmp_path: Path) -> None:
    folder = TRIALS.start(endless(), tmp_path)
    TRIALS.stop(folder)
    result = finished(folder).result
    assert result is not None and result.status == "stopped"
