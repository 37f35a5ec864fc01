"""Sees to one trial: waits for its turn, starts the worker, guards it, and says how it ended.

It loads no torch and outlives whatever the worker does: memory that ends, crashes in a kernel, a
kill. The worker is in a process group of its own and ends when this process does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from planner.background import GivenUp
from planner.forks.client import Process, begin, environment
from planner.jobs.folder import started
from planner.jobs.host_memory import guarded_bytes, resident_bytes
from planner.jobs.strict import shown
from planner.jobs.turns import Turn
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.result import Status, TrialResult
from planner.trial.ask.spare import SETTING, Spare
from planner.units import read_bytes, read_seconds

POLL_SECONDS = 0.1
GRACE_SECONDS = 3.0
"""Between asking a worker to end and killing it."""
WORKER = "planner.trial.run.worker"
SUPERVISOR = "HEADROOM_TRIAL_SUPERVISOR"
"""Environment variable that tells a worker whose end is its own: pid and start."""


class Supervisor:
    """One trial from request to result."""

    def __init__(self, request: TrialRequest, folder: TrialFolder, root: Path | None = None):
        self.request, self.folder, self.root = request, folder, root
        self.began = time.monotonic()
        self._stop = False
        self._spare = Spare()

    def stop(self, *_: Any) -> None:
        """End the trial at the next look; a signal's handler."""
        self._stop = True

    def run(self) -> TrialResult:
        """Do it all; the result is in the folder as well."""
        try:
            return self._in_turn()
        finally:
            self._spare.close()

    def _in_turn(self) -> TrialResult:
        try:
            self.folder.own()
            self.folder.reserve()
        except OSError as error:
            why = error.strerror or error
            return self._ended("failed", f"There is no room for the result: {why}. Nothing ran.")
        try:
            turn = Turn(self.request.devices(), self.folder.identifier, self.root)
        except OSError as error:
            return self._ended("failed", f"The device's queue cannot be written: {error}.")
        try:
            turn.wait(lambda ahead: self.folder.say("queued", ahead=ahead), self._stopping)
            return self._guarded(turn)
        except GivenUp:
            return self._ended("stopped", "It was stopped while it waited for its turn.")
        finally:
            turn.close()

    def _stopping(self) -> bool:
        return self._stop or self.folder.asked_to_stop()

    def _guarded(self, turn: Turn) -> TrialResult:
        limit = guarded_bytes(self.request.host_limit_bytes)
        self.folder.say("starting", limit_seconds=self.request.limit_seconds)
        with open(self.folder.stderr, "ab") as said:
            process = begin(
                *worker(self.request, self.folder),
                environment={**worker_environment(self.request), SETTING: self._spare.path},
                stdout=said,
                stderr=said,
                handles=turn.handles,
            )
        try:
            return self._watched(process, limit)
        finally:
            end_group(process)

    def _watched(self, process: Process, limit: int | None) -> TrialResult:
        start = time.monotonic()
        most = 0
        while (status := process.poll()) is None:
            resident = resident_bytes(process.pid) or 0
            most = max(most, resident)
            late = time.monotonic() - start > self.request.limit_seconds
            full = limit is not None and resident > limit
            if self._stopping() or late or full:
                end_group(process)
                return self._cut_short(late, resident, limit)
            time.sleep(POLL_SECONDS)
        return self._over(status, most)

    def _cut_short(self, late: bool, resident: int, limit: int | None) -> TrialResult:
        place = where(self.folder)
        if self._stopping():
            return self._ended("stopped", f"It was stopped in {place}.")
        if late:
            most = read_seconds(self.request.limit_seconds)
            return self._ended(
                "timed out", f"The trial took more than {most} and was ended in {place}."
            )
        return self._ended(
            "host memory",
            f"The trial was ended in {place}: its processes used {read_bytes(resident)} of host "
            f"memory, and the limit is {read_bytes(limit or 0)}.",
        )

    def _over(self, status: int, most: int) -> TrialResult:
        try:
            found = self.folder.result()
        except ValueError as error:
            return self._ended("failed", f"Its result cannot be read: {error}")
        spared = self._spare.result()
        if found is None and spared is not None:
            return self.folder.settled(spared)
        if found is not None:
            if found.status == "failed" and not found.stderr_tail:
                tail = shown(self.folder.stderr_tail(), 8000, lines=True)
                found = found.model_copy(update={"stderr_tail": tail})
                with contextlib.suppress(OSError):  # a full disk keeps the shorter one
                    self.folder.amend(found)
            return found
        if status < 0:
            name = signal.Signals(-status).name
            who = ""
            if name == "SIGKILL":
                who = (
                    "; nobody here did that: another process, or the system, which does it when "
                    f"memory ends (the worker held {read_bytes(most)} at most)"
                )
            place = where(self.folder)
            return self._ended("killed", f"The worker was ended by {name} in {place}{who}.")
        place, last = where(self.folder), self.folder.last_words()
        return self._ended(
            "failed", f"The worker ended with status {status} in {place}: {last[:300]}"
        )

    def _ended(self, status: Status, reason: str) -> TrialResult:
        spent = time.monotonic() - self.began
        return ended(self.folder, self.request, status, reason, seconds=spent)


def where(folder: TrialFolder) -> str:
    """What a trial was last heard to do."""
    found = "its beginning"
    for event in folder.progress():
        phase = event.get("phase")
        found = f"{phase}" if event["name"] == "phase" and phase else f"{event['name']}"
    return shown(found, 100)


def ended(
    folder: TrialFolder, request: TrialRequest, status: Status, reason: str, *, seconds: float
) -> TrialResult:
    """Finish a trial in its worker's place, with what that had found out until then."""
    asked = request.asked(folder.identifier)
    last = {
        "id": folder.identifier,
        "plan": request.plan,
        "status": status,
        "reason": shown(reason, 2000),
        "seconds": max(seconds, 0.0),
        "stderr_tail": shown(folder.stderr_tail(), 8000, lines=True),
        "extrapolated": False,
        "measured": None,
    }
    try:
        result = TrialResult.model_validate_json(to_json({**asked, **folder.known(), **last}))
    except ValueError:  # what the worker left is damaged
        result = TrialResult.model_validate_json(to_json({**asked, **last}))
    return folder.settled(result)


def worker(request: TrialRequest, folder: TrialFolder) -> tuple[str, ...]:
    """The worker's module and arguments, or torchrun's with as many as were asked for."""
    own = (WORKER, str(folder.path))
    if request.processes == 1:
        return own
    several = ("--standalone", f"--nproc-per-node={request.processes}")
    return ("torch.distributed.run", *several, "-m", *own)


def worker_environment(request: TrialRequest) -> dict[str, str]:
    """A worker's, and the plan's allocator."""
    segments = request.planned().expandable_segments
    return {
        **own_environment(on_cpu=request.kind == "cpu"),
        "PYTORCH_ALLOC_CONF": f"expandable_segments:{segments}",
    }


def own_environment(*, on_cpu: bool) -> dict[str, str]:
    """What a worker runs in, and who sees to it."""
    own = f"{os.getpid()}:{started(os.getpid()) or 0}"
    return {**environment(on_cpu=on_cpu), SUPERVISOR: own}


def end_group(process: Process) -> None:
    """Ask the worker's process group to end, and kill it if it does not."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
