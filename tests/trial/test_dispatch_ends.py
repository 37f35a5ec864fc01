"""How a trial on a cluster can end, with a stand-in for the cluster: no Ray, no network."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.plan import Plan
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import TrialRequest, read_request, request_of
from planner.trial.ask.result import TrialResult
from planner.trial.cluster import client, dispatch, job
from planner.trial.cluster.client import ClusterAway, ClusterRefused, JobState
from planner.trial.cluster.dispatch import RemoteSupervisor, job_command
from trial.running import command, result_of, tiny

PLAN = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1, sharding="none")
PENDING, RUNNING = (
    JobState(status="PENDING", message="No node has a GPU."),
    JobState(status="RUNNING"),
)
PIP_FAILED = """runtime_env setup failed: Failed to set up runtime environment.
Could not create the actor because its associated runtime env failed to be created.
[Node 192.0.2.2] Traceback (most recent call last):
  File "/ray/_private/runtime_env/utils.py", line 105, in check_output_cmd
ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[9] failed with the following.
Command '['python', '-m', 'pip', 'install', '-r', 'x.txt']' returned non-zero exit status 1.
Last 50 lines of stdout:
    Looking in indexes: https://pypi.org/simple
    ERROR: Could not find a version that satisfies the requirement torch==2.13.0
    ERROR: No matching distribution found for torch==2.13.0
"""
"""As Ray 2.60 says it, shortened."""


class StandIn:
    """A cluster whose job goes through given states; the last one stays."""

    def __init__(self, *states: JobState | Exception, log: str = "", broken: str = "") -> None:
        self.states, self.text, self.broken = list(states), log, broken
        self.stopped: list[str] = []
        self.looks = 0
        self.submitted: dict[str, Any] = {}
        self.refusing: Exception | None = None

    def __call__(self, address: str) -> StandIn:
        self.host = address.partition("//")[2]
        return self

    def submit(self, name: str, command: str, environment: Callable[[], Any], **needs: int) -> None:
        self.submitted = {"name": name, "command": command, "env": environment(), **needs}
        if self.refusing is not None:
            raise self.refusing

    def state(self, name: str) -> JobState:
        self.looks += 1
        found = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(found, Exception):
            raise found
        return found

    def stop(self, name: str) -> None:
        self.stopped.append(name)

    def log(self, name: str, skip: int = 0) -> Any:
        return StandInTail(self.text[skip:], self.broken)


class StandInTail:
    def __init__(self, text: str, broken: str) -> None:
        self.text, self.broken = text, broken

    @property
    def over(self) -> bool:
        return not self.text

    def take(self, seconds: float) -> str:
        text, self.text = self.text, ""
        return text

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(job, "GONE_SECONDS", 0.2)
    monkeypatch.setattr(job, "START_SECONDS", 0.2)
    monkeypatch.setattr(job, "SLACK_SECONDS", 0.2)
    monkeypatch.setattr(job, "REST_SECONDS", 0.2)


def ended(
    monkeypatch: pytest.MonkeyPatch, data: Path, stand_in: StandIn, **choices: Any
) -> TrialResult:
    monkeypatch.setattr(dispatch, "Cluster", stand_in)
    request: TrialRequest = request_of(PLAN, **{"ray": "http://head:8265", **choices})
    folder = TRIALS.new(request, data)
    result = RemoteSupervisor(folder, data).run()
    assert folder.result() == result
    assert result.environment is not None and result.environment.cluster == "http://head:8265"
    return result


def over(status: str, **more: Any) -> tuple[JobState, JobState]:
    return RUNNING, JobState(status=status, **more)


@pytest.mark.parametrize(
    ("states", "log", "status", "said"),
    [
        (over("FAILED", exit_status=-9), "", "killed", "ended by SIGKILL in its beginning"),
        (over("FAILED", exit_status=137), "", "killed", "ended by SIGKILL"),
        (over("FAILED", exit_status=250), "", "failed", "ended with status 250"),
        (over("FAILED", exit_status=2), "model_folder: no.\n", "failed", "result: model_folder: n"),
        (over("FAILED", exit_status=1), "no break", "failed", "result: no break"),
        (over("SUCCEEDED", exit_status=0), "", "failed", "it said nothing"),
        (over("STOPPED"), '{"name": "building"}\n', "stopped", "Somebody stopped the job on the"),
        (
            over("FAILED", error="JOB_SUPERVISOR_ACTOR_DIED", message="The node\nwas lost."),
            '{"name": "building"}\n',
            "failed",
            "ended its job in building: The node was lost.",
        ),
        (
            (JobState(status="FAILED", error="RUNTIME_ENV_SETUP_FAILURE", message=PIP_FAILED),),
            "",
            "failed",
            "so nothing ran: Could not find a version that satisfies the requirement torch==2.13.0."
            " Where the nodes have the packages of requirements/trial.txt, set HEADROOM_RAY_PIP=of",
        ),
        ((PENDING,), "", "failed", "asks one node for 1 × CPU. Ray says: No node has a GPU."),
        ((RUNNING,), "", "timed out", "The trial took more than"),
        ((ClusterAway("no connection"),), "", "failed", "since its beginning: no connection."),
        ((ClusterRefused("status code 503"),), "", "failed", "has not answered for"),
    ],
)
def test_every_end_has_a_sentence(
    states: tuple[JobState | Exception, ...],
    log: str,
    status: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in = StandIn(*states, log=log)
    result = ended(monkeypatch, tmp_path, stand_in, limit_seconds=0.1)
    assert (result.status, said in result.reason) == (status, True), result.reason
    assert stand_in.looks < 1000  # of 0.01 s each: it ends within seconds of a machine's own time
    assert bool(stand_in.stopped) == (stand_in.states[-1] in (PENDING, RUNNING))


def test_a_log_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandIn(*over("SUCCEEDED", exit_status=0), broken="message too big")
    result = ended(monkeypatch, tmp_path, stand_in)
    assert result.reason == "The job's log cannot be read: message too big."


def test_a_log_without_end_ends_the_trial_and_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.trial.cluster.job_log.LOG_CHARACTERS", 1000)
    stand_in = StandIn(RUNNING, log="x" * 2000)
    result = ended(monkeypatch, tmp_path, stand_in, limit_seconds=5.0)
    assert result.status == "failed" and "more output than any trial" in result.reason
    assert stand_in.stopped


def test_what_is_asked_of_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dispatch.shipment.PIP, "off")
    stand_in = StandIn(*over("SUCCEEDED", exit_status=0))
    ended(monkeypatch, tmp_path, stand_in, device="cuda:0", processes=4)
    asked = stand_in.submitted
    assert (asked["cpus"], asked["gpus"]) == (4, 4)
    assert set(asked["env"]) == {"working_dir"}
    assert (
        asked["command"].startswith("python -m planner trial ") and "--ray" not in asked["command"]
    )
    ended(monkeypatch, tmp_path, stand_in)
    assert (stand_in.submitted["cpus"], stand_in.submitted["gpus"]) == (1, 0)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClusterAway("no connection"), "does not answer: no connection. Check that the cluster"),
        (ClusterRefused("a token is missing"), "refused the job: a token is missing."),
    ],
)
def test_a_job_that_is_not_taken_ends_the_trial(
    error: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = StandIn(RUNNING)
    stand_in.refusing = error
    result = ended(monkeypatch, tmp_path, stand_in)
    assert result.status == "failed" and said in result.reason


def test_a_wrong_setting_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dispatch.shipment.PIP, "maybe")
    result = ended(monkeypatch, tmp_path, StandIn(RUNNING))
    assert result.status == "failed" and "HEADROOM_RAY_PIP: it is 'maybe'" in result.reason


def test_without_ray_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "found = PathFinder.find_spec\n"
        "def absent(name, path=None, target=None):\n"
        "    return None if name.partition('.')[0] == 'ray' else found(name, path, target)\n"
        "PathFinder.find_spec = staticmethod(absent)\n",
        "utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = command(tiny("sft"), "--ray", "http://127.0.0.1:9", data=tmp_path / "data")
    result = result_of(done)
    assert done.returncode == 1 and result.status == "failed"
    assert result.reason.startswith("ray: not installed; run `")
    assert "requirements/ray.txt" in result.reason


def test_nobody_listening_is_said(tmp_path: Path) -> None:
    result = result_of(command(tiny("sft"), "--ray", "http://127.0.0.1:9", data=tmp_path))
    assert result.status == "failed"
    assert "The Ray cluster 127.0.0.1:9 does not answer: no connection." in result.reason


def test_a_hostile_plan_is_one_word_for_the_nodes_shell(tmp_path: Path) -> None:
    request = request_of(PLAN, ray="http://head:8265", model_folder="/x; reboot $(id) `id` '")
    words = shlex.split(job_command(request, TRIALS.new(request, tmp_path)))
    assert words[:4] == ["python", "-m", "planner", "trial"]
    assert read_request(words[-1]) == request.model_copy(update={"ray": ""})


def test_a_call_that_hangs_is_given_up() -> None:
    with pytest.raises(ClusterAway, match="no answer in 0 s"):
        client._within(0.05, lambda: time.sleep(5))
