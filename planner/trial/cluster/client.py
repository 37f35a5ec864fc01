"""Ray's Jobs API, as a trial needs it: submit a job, ask how it stands, follow its log, stop it.

Loads Ray (``requirements/ray.txt``), when a job is made and not before. Ray's client waits for
ever by itself; here every call has a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from planner.jobs.strict import shown
from planner.trial.cluster.address import host_of

CALL_SECONDS = 20.0
"""For one question to the cluster."""
SUBMIT_SECONDS = 120.0
"""For the working directory's way to the cluster as well; it is less than 1 MB."""
OVERRIDES = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
"""Environment variables that Ray's client prefers to the address it is given."""
PACKAGES = ("ray", "aiohttp")
"""Without ``ray[default]`` the client has no aiohttp."""

Answer = TypeVar("Answer")


class ClusterAway(Exception):
    """The cluster gave no answer; the message says how, without a full stop."""


class ClusterRefused(Exception):
    """The cluster answered, and will not; the message is its own."""


def missing() -> str:
    """Why there is no client here, with the fix; empty where there is one."""
    if all(importlib.util.find_spec(name) for name in PACKAGES):
        return ""
    return (
        "ray: not installed; run `.venv/bin/python -m pip install -r requirements/ray.txt`, "
        "or run the trial on this machine."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What the cluster says of a job."""

    status: str
    """Ray's word: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED."""
    message: str = ""
    error: str = ""
    """Ray's kind of error; empty without one."""
    exit_status: int | None = None

    @property
    def over(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


class Cluster:
    """One cluster's Jobs API."""

    def __init__(self, address: str) -> None:
        """Connect.

        Raises:
            ClusterAway: when nobody answers as Ray does.
            ClusterRefused: when the client is not installed, or the cluster wants a token.
        """
        self.host = host_of(address)
        if reason := missing():
            raise ClusterRefused(reason)
        for name in OVERRIDES:
            os.environ.pop(name, None)
        self._client: Any = _within(CALL_SECONDS, lambda: _connected(address))

    def submit(
        self,
        name: str,
        command: str,
        environment: Callable[[], dict[str, Any]],
        *,
        cpus: int,
        gpus: int,
    ) -> None:
        """Hand a job in under a name of ours; what it needs travels with it."""
        _within(
            SUBMIT_SECONDS,
            lambda: self._client.submit_job(
                entrypoint=command,
                submission_id=name,
                runtime_env=environment(),
                entrypoint_num_cpus=cpus,
                entrypoint_num_gpus=gpus,
            ),
        )

    def state(self, name: str) -> JobState:
        """How a job stands."""
        found = _within(CALL_SECONDS, lambda: self._client.get_job_info(name))
        return JobState(
            status=str(found.status.value),
            message=found.message or "",
            error=str(found.error_type or ""),
            exit_status=found.driver_exit_code,
        )

    def stop(self, name: str) -> None:
        """Ask for a job's end; Ray kills it when it has not ended in three seconds."""
        _within(CALL_SECONDS, lambda: self._client.stop_job(name))

    def log(self, name: str, skip: int = 0) -> LogTail:
        """Follow a job's log from its beginning, less so many characters."""
        return LogTail(self._client, name, skip)


class LogTail:
    """A job's log as it grows. Ends when the job does, or the connection."""

    def __init__(self, client: Any, name: str, skip: int) -> None:
        self._texts: queue.Queue[str] = queue.Queue(maxsize=64)
        self._client, self._name, self._skip = client, name, skip
        self._loop = asyncio.new_event_loop()
        self._closed = threading.Event()
        self.broken = ""
        """Why it ended before the log did; empty otherwise."""
        self._task = self._loop.create_task(self._follow())
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether everything has been taken and nothing will come."""
        return not self._thread.is_alive() and self._texts.empty()

    def take(self, seconds: float) -> str:
        """What has come, after waiting so long for it; empty when there is nothing."""
        try:
            return self._texts.get(timeout=seconds)
        except queue.Empty:
            return ""

    def close(self) -> None:
        """Let go of the connection."""
        self._closed.set()
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(CALL_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # the library's, the connection's
            self.broken = _sentence(error)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _follow(self) -> None:
        async for text in self._client.tail_job_logs(self._name):
            fresh = text[self._skip :]
            self._skip -= len(text) - len(fresh)
            while fresh and not self._closed.is_set():
                try:
                    self._texts.put_nowait(fresh)
                    break
                except queue.Full:  # whoever reads is slower than the log grows
                    await asyncio.sleep(0.05)


def _connected(address: str) -> Any:
    from ray.job_submission import JobSubmissionClient

    client = JobSubmissionClient(address)
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("ray."):  # it tells of every package that it uploads
            logging.getLogger(name).setLevel(logging.WARNING)
    return client


def _within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """What a call returns; it goes on in a thread of its own when it takes longer than allowed."""
    answer: Future[Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="call", daemon=True).start()
    try:
        return answer.result(seconds)
    except (ClusterAway, ClusterRefused):
        raise
    except OSError as error:  # requests' and urllib3's errors of connections are, and time-outs
        said = _sentence(error) if answer.done() else f"no answer in {seconds:.0f} s"
        raise ClusterAway(said) from None
    except Exception as error:
        raise ClusterRefused(_sentence(error)) from None


def _sentence(error: BaseException) -> str:
    """An error on one line, shortened."""
    if type(error).__name__ == "ConnectionError":  # Ray's, and the long one of requests
        return "no connection"
    said = " ".join(str(error).split()) or type(error).__name__
    return shown(said, 400).rstrip(".")
