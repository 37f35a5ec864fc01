"""Trials on a real Ray cluster: the job, its log, its ends, and a line that is cut."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.jobs import processes
from planner.jobs.processes import JobState
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import TrialRequest, request_of
from planner.trial.ask.result import TrialResult
from planner.trial.cluster import client, dispatch, job
from planner.trial.cluster.client import Cluster
from planner.trial.cluster.dispatch import RemoteSupervisor, job_name
from planner.trial.cluster.shipment import PIP
from planner.trial.history import Filter, History
from trial.ray_head import Head, Line, running_head
from trial.running import PATIENCE_SECONDS, TOLERANCE, command, errors, result_of, tiny, until

PLAN = tiny("sft", "llama")
pytestmark = pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")
"""Ray 2.60's client gives aiohttp what aiohttp 3.14 deprecates."""


@pytest.fixture(scope="module")
def running() -> Iterator[Head]:
    with running_head() as found:
        yield found


@pytest.fixture
def head(running: Head, monkeypatch: pytest.MonkeyPatch) -> Iterator[Head]:
    with monkeypatch.context() as here:
        for name, value in {**running.settings, PIP: "off", "OMP_NUM_THREADS": "1"}.items():
            here.setenv(name, value)
        read_again()
        yield running
    read_again()


def read_again() -> None:
    """Ray reads whether it has a token when it is imported, which verl's tests may have done."""
    from ray._raylet import AuthenticationTokenLoader, Config

    AuthenticationTokenLoader.instance().reset_cache()
    Config.initialize("")


def endless(head: Head, **choices: Any) -> TrialRequest:
    return request_of(PLAN, **{"ray": head.address, "steps": 1000, **choices})


def state_of(folder: TrialFolder) -> JobState[TrialRequest, TrialResult]:
    state = TRIALS.look(folder)
    assert state is not None
    return state


def finished(folder: TrialFolder) -> TrialResult:
    found: TrialResult = until(lambda: state_of(folder).result)
    # Looking on notices that the trial's processes have ended.
    until(lambda: TRIALS.look(folder) and not {folder.identifier} & {*processes.children})
    return found


def heard(folder: TrialFolder, name: str) -> Any:
    return until(lambda: [event for event in folder.progress() if event["name"] == name])


def job_of(folder: TrialFolder, head: Head) -> str:
    """What the cluster says of a trial's job."""
    return Cluster(head.address).state(job_name(folder)).status


def followed(request: TrialRequest, data: Path) -> tuple[TrialFolder, Callable[[], TrialResult]]:
    """A trial that a thread of this process sees to, and its result when it has one."""
    folder = TRIALS.new(request, data)
    results: list[TrialResult] = []
    supervisor = RemoteSupervisor(folder, data)
    thread = threading.Thread(target=lambda: results.append(supervisor.run()), daemon=True)
    thread.start()

    def wait() -> TrialResult:
        thread.join(PATIENCE_SECONDS)
        assert results, "it never ended"
        return results[0]

    return folder, wait


def test_the_same_command_runs_as_a_job_and_is_stored_like_a_local_one(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ray's client prefers these to the address that it is given; a trial goes where it is sent.
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:9")
    monkeypatch.setenv("HEADROOM_RAY_ADDRESS", head.address)
    result = result_of(command(PLAN, "--steps", "1", "--ray", data=tmp_path))
    assert result.status == "completed", (result.reason, result.stderr_tail)
    assert max(map(abs, errors(result).values())) <= TOLERANCE
    assert result.environment is not None and result.environment.cluster == head.address
    assert result.environment.versions["torch"]
    folder = TrialFolder(tmp_path / "trials" / result.id)
    assert folder.request().ray == head.address
    names = [event["name"] for event in folder.progress()]
    assert names.index("queued") < names.index("starting") < names.index("building")
    assert names.count("done") == 1
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))
    assert [line.id for line in History().list(Filter())] == [result.id]
    until(lambda: job_of(folder, head) == "SUCCEEDED")
    assert not list((head.place / "tmp").glob("headroom-*"))


def test_trials_of_a_cluster_queue_here_and_a_stop_ends_the_job(head: Head, tmp_path: Path) -> None:
    first = TRIALS.start(endless(head), tmp_path)
    heard(first, "queued")
    second = TRIALS.start(endless(head), tmp_path)
    until(lambda: (state := TRIALS.look(second)) and state.latest("ahead") == 1)
    assert state_of(second).stage == "queued"
    heard(first, "building")
    assert state_of(first).stage == "running" and state_of(first).seconds > 0
    known = {one.identifier for one in TRIALS.states(tmp_path)}
    assert known == {first.identifier, second.identifier}
    TRIALS.stop(first)
    stopped = finished(first)
    assert stopped.status == "stopped" and "stopped in" in stopped.reason
    assert stopped.predicted is not None and stopped.measured is None
    assert stopped.environment is not None and stopped.environment.cluster == head.address
    until(lambda: job_of(first, head) == "STOPPED")
    heard(second, "starting")
    TRIALS.stop(second)
    assert finished(second).status == "stopped"


def test_when_its_follower_is_killed_the_trial_is_over_and_so_is_the_job(
    head: Head, tmp_path: Path
) -> None:
    folder = TRIALS.start(endless(head), tmp_path)
    heard(folder, "starting")
    pid = folder.owner_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    result = finished(folder)
    assert result.status == "killed" and "left no result" in result.reason
    until(lambda: job_of(folder, head) == "STOPPED")
    until(lambda: TRIALS.look(folder) and not processes.children)


def as_job(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Run other code on the cluster in the trial's place."""
    python = shlex.join(["python", "-uc", code])
    monkeypatch.setattr(dispatch, "job_command", lambda request, folder: python)


STEPS = """
import json, time
print(json.dumps({"name": "known", "known": {"steps": 7}}))
for step in range(%d):
    print(json.dumps({"name": "measuring", "step": step}))
    time.sleep(0.02)
"""
"""Progress as a trial writes it."""


def test_a_killed_command_is_reported_with_what_it_knew(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_job(monkeypatch, STEPS % 5000)
    folder, result = followed(endless(head), tmp_path)
    heard(folder, "measuring")
    own = [one for one in head.own() if any("measuring" in word for word in one.cmdline())]
    assert own
    for one in own:
        one.kill()
    found = result()
    assert found.status == "killed" and "SIGKILL in measuring" in found.reason, found.reason
    assert found.steps == 7 and found.plan == endless(head).plan


def test_a_line_that_is_cut_for_a_while_is_taken_up_again(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_job(monkeypatch, STEPS % 200)
    line = Line(head.port)
    try:
        folder, result = followed(endless(head, ray=line.address), tmp_path)
        heard(folder, "measuring")
        line.cut()
        time.sleep(1)
        line.mend()
        assert "left no result" in result().reason
        told = [event["step"] for event in folder.progress() if event["name"] == "measuring"]
        assert told == list(range(200))  # each once, whichever connection brought it
    finally:
        line.close()


def test_a_cluster_that_is_gone_ends_the_trial(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_job(monkeypatch, STEPS % 5000)
    line = Line(head.port)
    try:
        folder, result = followed(endless(head, ray=line.address), tmp_path)
        heard(folder, "measuring")
        monkeypatch.setattr(job, "GONE_SECONDS", 2.0)  # a busy head may answer later
        line.cut()
        found = result()
        assert found.status == "failed" and "has not answered for 2.00 s" in found.reason
        assert found.steps == 7
    finally:
        line.close()
        Cluster(head.address).stop(job_name(folder))


def test_a_card_that_no_node_has_is_waited_for_and_not_for_ever(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "START_SECONDS", 2.0)
    folder, result = followed(endless(head, device="cuda:0"), tmp_path)
    found = result()
    assert found.status == "failed" and "1 × GPU" in found.reason
    assert "waiting for resources" in found.reason
    assert [event["name"] for event in folder.progress()] == ["queued"]


def test_the_nodes_own_sentence_comes_back_and_no_secret_is_kept(
    head: Head, tmp_path: Path
) -> None:
    folder, result = followed(endless(head, model_folder="/no/such/folder"), tmp_path)
    found = result()
    assert found.status == "failed" and "model_folder: /no/such/folder" in found.reason
    written = [path.read_text("utf-8", "replace") for path in folder.path.iterdir()]
    assert len(written) >= 4 and not any(head.token in text for text in written)


def test_limits_hold_when_the_node_does_not_keep_them(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_job(monkeypatch, "import time; time.sleep(100)")
    monkeypatch.setattr(job, "SLACK_SECONDS", 0.5)
    folder, result = followed(endless(head, limit_seconds=1.0), tmp_path)
    found = result()
    assert found.status == "timed out" and "more than 1.00 s" in found.reason
    until(lambda: job_of(folder, head) == "STOPPED")


HOSTILE = """
print('{"id": "another-trial", "status": "completed"}')
print("no JSON\\n" * 30)
print("x" * 5_000_000)
"""
"""A result of another trial, and three of Ray's messages later more than one of them may hold."""


def test_whatever_a_job_says_the_trial_ends_with_a_sentence(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_job(monkeypatch, HOSTILE)
    _, result = followed(endless(head), tmp_path)
    found = result()
    assert found.status == "failed" and "Its result was refused: " in found.reason


def test_a_cluster_that_wants_another_token_says_so(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    result = result_of(command(PLAN, "--ray", head.address, data=tmp_path))
    assert result.status == "failed" and "token" in result.reason.lower()


def test_the_client_gives_up_on_a_host_that_never_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CALL_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        _, result = followed(request_of(PLAN, ray=address), tmp_path)
        found = result()
    assert found.status == "failed" and "no answer in 1 s" in found.reason
