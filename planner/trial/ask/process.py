"""Trials as an app sees them: start one, look at all of them, stop one. No torch.

A trial belongs to a process of its own and to its folder, not to whoever started it: closing a
page does not end it, and an app that starts anew finds it again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from planner.jobs import processes
from planner.trial.ask.folders import TRIALS, TrialFolder, folders, new_folder
from planner.trial.ask.request import TrialRequest, command_of
from planner.trial.ask.result import Status, TrialResult
from planner.trial.ask.supervisor import ended, where

find = TRIALS.find
"""The folder of a trial by its name; None when there is none."""

_enders: list[subprocess.Popen[bytes]] = []
"""Processes that end the cluster's jobs of trials whose own process is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialState:
    """How a trial stands.

    ``ahead`` is how many trials are before it in its device's queue. ``doing`` is what it was
    last heard to do, ``step`` of ``steps`` how far it is; ``result`` is there when it is over.
    """

    identifier: str
    stage: Literal["queued", "running", "finished"]
    request: TrialRequest
    ahead: int = 0
    doing: str = ""
    step: int = 0
    steps: int = 0
    seconds: float = 0.0
    """Since it began to run; 0 while it waits."""
    result: TrialResult | None = None


def start(request: TrialRequest, root: Path | None = None) -> TrialFolder:
    """Start a trial in a process of its own, which goes on without this one.

    Raises:
        OSError: when its folder cannot be written.
    """
    folder = new_folder(request, root)
    if request.snapshot:
        # A name alone is a file in the trial's folder; a whole path stays as it is.
        place = str(folder.path / request.snapshot)
        request = request.model_copy(update={"snapshot": place})
    processes.begin(command_of(request, sys.executable), folder, root)
    return folder


def states(root: Path | None = None) -> list[TrialState]:
    """Every trial whose folder can be read, newest first."""
    return [state for folder in folders(root) if (state := look(folder)) is not None]


def look(folder: TrialFolder) -> TrialState | None:
    """How a trial stands; None when its folder cannot be read.

    One whose process is gone without a result is given one that says so.
    """
    _enders[:] = [one for one in _enders if one.poll() is None]
    try:
        request = folder.request()
        result = processes.settled(folder, folder.result, partial(_lost, folder, request))
    except (OSError, ValueError):
        return None
    state = partial(TrialState, identifier=folder.identifier, request=request)
    if result is not None:
        return state(
            stage="finished", doing=result.status, seconds=result.seconds, result=result
        )
    events = folder.progress()
    began = next((event for event in events if event["name"] == "starting"), None)
    if began is None:
        return state(stage="queued", ahead=_latest(events, "ahead"))
    at = began.get("at")
    spent = time.time() - at if isinstance(at, (int, float)) else 0.0
    return state(
        stage="running",
        doing=where(folder),
        step=_latest(events, "step"),
        steps=_latest(events, "steps"),
        seconds=max(spent, 0.0),
    )


def _latest(events: Iterable[Mapping[str, Any]], key: str) -> int:
    """The last number that an event had under a key; 0 without one."""
    found = [event[key] for event in events if key in event]
    return found[-1] if found and isinstance(found[-1], int) else 0


def _lost(folder: TrialFolder, request: TrialRequest) -> TrialResult:
    if request.ray:  # its job goes on without it
        from planner.trial.cluster.dispatch import abandon

        _enders.append(abandon(folder))
    events = folder.progress()
    times = [event["at"] for event in events if isinstance(event.get("at"), (int, float))]
    spent = times[-1] - times[0] if times else 0.0
    status: Status = "killed"
    reason = f"The trial was killed from outside in {where(folder)}, and left no result."
    if folder.asked_to_stop():  # before its process could answer to that
        status, reason = "stopped", "It was stopped."
    return ended(folder, request, status, reason, seconds=spent)


stop = processes.end
"""End a trial that runs or waits; its result says that it was stopped."""


def forget(folder: TrialFolder) -> bool:
    """Delete the folder of a trial that is over; False when it is not."""
    state = look(folder)
    return processes.forget(folder, state is None or state.stage == "finished")
