"""Sees to one job: waits for its turn, watches its processes, and says how it ended.

It loads no torch and outlives whatever a worker does: memory that ends, crashes in a kernel, a
kill. A worker is in a process group of its own and ends when this process does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from planner.background import GivenUp
from planner.forks.client import Process, environment
from planner.jobs.folder import JobFolder, Result, alive, started
from planner.jobs.spare import Spare
from planner.jobs.strict import JobRequest
from planner.jobs.turns import Turn

POLL_SECONDS = 0.1
GRACE_SECONDS = 3.0
"""Between asking a worker to end and killing it."""
WATCH_SECONDS = 0.5
SUPERVISOR = "HEADROOM_SUPERVISOR"
"""Environment variable that tells a worker whose end is its own: pid and start."""
UNFINISHED = 3
"""Exit status of one of several processes that ended early, so that torchrun ends the others."""

Asked = TypeVar("Asked", bound=JobRequest)


class Supervisor(Generic[Asked, Result]):
    """One job from request to result."""

    def __init__(self, folder: JobFolder[Asked, Result], root: Path | None = None) -> None:
        """``root`` is the user's data directory, where it is not the usual one."""
        self.request, self.folder, self._root = folder.request(), folder, root
        self._began = time.monotonic()
        self._stop = False
        self.spare = Spare()

    def stop(self, *_: Any) -> None:
        """End the job at the next look; a signal's handler."""
        self._stop = True

    def stopping(self) -> bool:
        """Whether somebody wants the job to end."""
        return self._stop or self.folder.asked_to_stop()

    def run(self) -> Result:
        """Run the job to its end and return its result, which is also in the folder."""
        try:
            self.folder.own()
            self.folder.reserve()
            turn = Turn(self.request.devices(), self.folder.identifier, self._root)
        except OSError as error:
            why = error.strerror or error
            return self.ended("failed", f"There is no room for the result: {why}. Nothing ran.")
        try:
            turn.wait(lambda ahead: self.folder.say("queued", ahead=ahead), self.stopping)
            return self.work(turn)
        except GivenUp:
            return self.ended("stopped", "It was stopped while it waited for its turn.")
        finally:
            turn.close()
            self.spare.close()

    @abstractmethod
    def work(self, turn: Turn) -> Result:
        """What is to be done once the devices are this job's."""

    def watch(
        self, process: Process, limit: Callable[[], tuple[str, str] | None] = lambda: None
    ) -> Result | None:
        """Wait for a process; how the job ended where the process was cut short.

        ``limit`` is asked again and again for a status and a reason to do so, in which ``{}`` is
        what the job was doing.
        """
        cut = None
        try:
            while process.poll() is None and cut is None:
                cut = ("stopped", "It was stopped in {}.") if self.stopping() else limit()
                time.sleep(POLL_SECONDS)
        finally:
            end_group(process)
        return None if cut is None else self.ended(cut[0], cut[1].format(self.folder.doing()))

    def without_result(self, status: int, more: str = "") -> Result:
        """The end of a job whose process ended by itself and left no result."""
        place = self.folder.doing()
        if status < 0:
            return self.ended(
                "killed",
                f"{signal.Signals(-status).name} ended the worker in {place}. Headroom did not "
                "send that signal: another process did, or the operating system, which does so "
                f"when memory runs out{more}.",
            )
        last = self.folder.last_words()[:300]
        return self.ended("failed", f"The worker ended with status {status} in {place}: {last}")

    def ended(self, status: str, reason: str) -> Result:
        """Finish the job in its worker's place."""
        return self.folder.ended(status, reason, time.monotonic() - self._began)


def worker_environment(*, on_cpu: bool) -> dict[str, str]:
    """What a worker runs in, and who sees to it."""
    own = f"{os.getpid()}:{started(os.getpid()) or 0}"
    return {**environment(on_cpu=on_cpu), SUPERVISOR: own}


def end_with_parent() -> None:
    """End this process when its parent, or the supervisor above it, is gone."""
    parent = os.getppid()
    pid, _, began = os.environ.get(SUPERVISOR, "").partition(":")

    def watch() -> None:
        while os.getppid() == parent and (not pid or alive(int(pid), int(began) or None)):
            time.sleep(WATCH_SECONDS)
        os._exit(UNFINISHED)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def end_group(process: Process) -> None:
    """Ask the worker's process group to end, and kill it if it does not."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
