"""Commands of ours in processes of their own, which go on without the one that began them.

Each sees to a folder: it is begun with one, found by it, and ended through it. No torch.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from planner.forks.client import ROOT
from planner.jobs.folder import JobFolder, Result, doing
from planner.jobs.storage import IDENTIFIER, data_folder, named, new_identifier, write_whole
from planner.jobs.strict import JobRequest

Request = TypeVar("Request", bound=JobRequest)
Folder = TypeVar("Folder", bound=JobFolder[Any, Any])

STARTING_SECONDS = 5.0
"""A folder without an owner may be that of a process that has just begun."""

children: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that this one began for jobs, so that their ends are noticed."""


def running(folder: JobFolder[Any, Any]) -> bool:
    """Whether its process is alive, or may not have said yet that the folder is its own.

    Those of ours that have ended would stay as zombies until they are asked for.
    """
    for name, child in [*children.items()]:
        if child.poll() is not None:
            children.pop(name, None)
    with suppress(OSError):
        if not (folder.path / "owner.json").exists():
            return time.time() - folder.path.stat().st_mtime < STARTING_SECONDS
    return folder.owned()


@dataclass(frozen=True, kw_only=True)
class JobState(Generic[Request, Result]):
    """State of a job: its progress as ``events``, and its ``result`` once it has ended."""

    folder: JobFolder[Request, Result]
    request: Request
    events: Sequence[Mapping[str, Any]] = ()
    result: Result | None = None

    @property
    def identifier(self) -> str:
        """The job's name."""
        return self.folder.identifier

    @property
    def stage(self) -> Literal["queued", "running", "finished"]:
        """Whether it waits for its device, runs, or is over."""
        if self.result is not None:
            return "finished"
        return "running" if self._begun else "queued"

    @property
    def running(self) -> bool:
        """Whether it is not over."""
        return self.result is None

    @property
    def doing(self) -> str:
        """What it was last heard to do."""
        return doing(self.events)

    @property
    def seconds(self) -> float:
        """Since it began to run; 0 while it waits."""
        at = self._begun[0].get("at") if self._begun else None
        return max(time.time() - at, 0.0) if isinstance(at, (int, float)) else 0.0

    @property
    def _begun(self) -> list[Mapping[str, Any]]:
        return [event for event in self.events if event["name"] != "queued"]

    def latest(self, key: str) -> int:
        """The last number that an event had under a key; 0 without one."""
        found = [event[key] for event in self.events if key in event]
        return found[-1] if found and isinstance(found[-1], int) else 0


class Jobs(Generic[Folder, Request, Result]):
    """All jobs of a kind: a folder each, in one of the user's data directory."""

    def __init__(
        self,
        name: str,
        kind: Callable[[Path], Folder],
        command: Callable[[Request], Sequence[str]],
        lost: Callable[[Folder], Result],
    ) -> None:
        """Say what is this kind's own.

        Args:
            name: of the folder they are in.
            kind: of one's folder, by its path.
            command: of the command line, that sees to one; its folder's path comes after it.
            lost: gives an end to one whose process is gone.
        """
        self._name, self._kind, self._command, self._lost = name, kind, command, lost

    def place(self, root: Path | None = None) -> Path:
        """Where they are."""
        return (root or data_folder()) / self._name

    def new(self, request: Request, root: Path | None = None) -> Folder:
        """A folder for a new one, with its request in it.

        Raises:
            OSError: when nothing can be written there.
        """
        folder = self._kind(self.place(root) / new_identifier())
        folder.path.mkdir(parents=True)
        write_whole(folder.path / "request.json", request.model_dump_json())
        return folder

    def start(self, request: Request, root: Path | None = None) -> Folder:
        """Start one in a process of its own, which goes on without this one.

        Raises:
            OSError: when its folder cannot be written.
        """
        folder = self.new(request, root)
        self.begin(folder, root)
        return folder

    def command(self, folder: Folder) -> list[str]:
        """The command line that sees to a folder."""
        return [*self._command(folder.request()), "--folder", str(folder.path)]

    def begin(self, folder: Folder, root: Path | None = None) -> None:
        """Start the process that sees to a folder, in a session of its own."""
        own = {} if root is None else {"HEADROOM_DATA": str(root)}
        with open(folder.stderr, "ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "planner", *self.command(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd=ROOT,
                env={**os.environ, **own},
                start_new_session=True,
            )
        children[folder.identifier] = process
        folder.own(process.pid)

    def all(self, root: Path | None = None) -> list[Folder]:
        """Every one's folder, newest first."""
        return [self._kind(path) for path in named(self.place(root)) if path.is_dir()]

    def find(self, identifier: str, root: Path | None = None) -> Folder | None:
        """The folder of that name; None when there is none."""
        path = self.place(root) / identifier
        return self._kind(path) if IDENTIFIER.fullmatch(identifier) and path.is_dir() else None

    def states(self, root: Path | None = None) -> list[JobState[Request, Result]]:
        """Every one whose folder can be read, newest first."""
        return [state for folder in self.all(root) if (state := self.look(folder)) is not None]

    def look(self, folder: Folder) -> JobState[Request, Result] | None:
        """How one stands; None when its folder cannot be read.

        One whose process is gone without a result is given one that says so.
        """
        try:
            goes_on = running(folder)  # asked first: what ends meanwhile has its result by then
            request = folder.request()
            result = folder.result() or (None if goes_on else self._lost(folder))
        except (OSError, ValueError):
            return None
        events = () if result is not None else folder.progress()
        return JobState(folder=folder, request=request, events=events, result=result)

    def stop(self, folder: Folder) -> None:
        """Ask one's process to stop, in its folder and by a signal; its result says so."""
        folder.ask_to_stop()
        pid = folder.owner_pid()
        if pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)

    def forget(self, folder: Folder) -> bool:
        """Delete the folder of one that is over, with all that it has computed; False otherwise."""
        state = self.look(folder)
        over = state is None or not state.running
        if over:
            shutil.rmtree(folder.path, ignore_errors=True)
        return over
