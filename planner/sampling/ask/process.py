"""Runs as an app sees them: start one, look at all of them, stop, go on, forget. No torch.

A run belongs to a process of its own and to its folder, as a trial does: closing a page does not
end it, and an app that starts anew finds it again.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from planner.jobs import processes
from planner.jobs.folder import JobFolder
from planner.jobs.strict import shown
from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.result import SamplingResult
from planner.sampling.ask.setup import predicted
from planner.sampling.ask.store import RUNS, asked, ended, new_run, runs, settle
from planner.sampling.ask.supervisor import result_of
from planner.sampling.estimate import SamplingEstimate

find = RUNS.find
"""The folder of a run by its name; None when there is none."""
COMMAND = ("-m", "planner", "sampling", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingState:
    """How a run stands; ``result`` is there when it is over."""

    identifier: str
    request: SamplingRequest
    running: bool
    stage: str = ""
    done: int = 0
    of: int = 0
    seconds: float = 0.0
    events: tuple[dict[str, Any], ...] = ()
    estimate: SamplingEstimate | None = None
    """With what its calibration has found."""
    result: SamplingResult | None = None


def start(request: SamplingRequest, root: Path | None = None) -> JobFolder:
    """Start a run in a process of its own, which goes on without this one.

    Raises:
        OSError: when its folder cannot be written.
    """
    folder = new_run(request, root)
    processes.begin([sys.executable, *COMMAND], folder, root)
    return folder


def reopen(folder: JobFolder) -> None:
    """Take the end off a run, so that it can go on with what it has.

    Raises:
        ValueError: while it runs, and when it has completed.
    """
    state = look(folder)
    if state is None or state.running:
        raise ValueError("resume: this run goes on already.")
    if state.result is not None and state.result.status == "completed":
        raise ValueError("resume: this run is completed; its weights are there.")
    for name in ("result.json", "stop", "owner.json"):
        (folder.path / name).unlink(missing_ok=True)


def resume(folder: JobFolder, root: Path | None = None) -> JobFolder:
    """Go on with a run that was ended; nothing that it has written is computed again."""
    reopen(folder)
    processes.begin([sys.executable, *COMMAND], folder, root)
    return folder


def states(root: Path | None = None) -> list[SamplingState]:
    """Every run whose folder can be read, newest first."""
    return [state for folder in runs(root) if (state := look(folder)) is not None]


def look(folder: JobFolder) -> SamplingState | None:
    """How a run stands; None when its folder cannot be read.

    One whose process is gone without a result is given one that says so.
    """
    try:
        request = asked(folder)
        result = processes.settled(folder, partial(ended, folder), partial(_lost, folder, request))
    except (OSError, ValueError):
        return None
    if result is not None:
        return SamplingState(
            identifier=folder.identifier, request=request, running=False, result=result,
            seconds=result.seconds,
        )
    events = tuple(folder.progress())
    last: dict[str, Any] = next((one for one in reversed(events) if "stage" in one), {})
    began = events[0].get("at") if events else None
    done, of = (last.get(key, 0) for key in ("done", "of"))
    return SamplingState(
        identifier=folder.identifier,
        request=request,
        running=True,
        stage=shown(str(last.get("stage", "")), 60),
        done=done if isinstance(done, int) else 0,
        of=of if isinstance(of, int) else 0,
        seconds=time.time() - began if isinstance(began, (int, float)) else 0.0,
        events=events,
        estimate=predicted(folder.path),
    )


def _lost(folder: JobFolder, request: SamplingRequest) -> SamplingResult:
    stopped = folder.asked_to_stop()
    reason = "The run was stopped." if stopped else (
        "The run's process was killed from outside and left no result. Everything that the run "
        "computed is kept."
    )
    status = "stopped" if stopped else "killed"
    return settle(folder, result_of(folder, request, status, reason, seconds=0.0))  # type: ignore[arg-type]


stop = processes.end
"""End a run; what it has computed stays."""


def forget(folder: JobFolder) -> bool:
    """Delete the folder of a run that is over, weights included; False when it goes on."""
    state = look(folder)
    return processes.forget(folder, state is None or not state.running)
