"""Commands of ours in processes of their own, which go on without the one that began them.

Each sees to a folder: it is begun with one, found by it, and ended through it. No torch.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from planner.jobs.folder import JobFolder
from planner.jobs.storage import IDENTIFIER, data_folder, named, new_identifier, write_whole

ROOT = Path(__file__).resolve().parents[2]
Ended = TypeVar("Ended")
Folder = TypeVar("Folder", bound=JobFolder)

STARTING_SECONDS = 5.0
"""A folder without an owner may be that of a process that has just begun."""

children: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that this one began, by their folder's name, so that their ends are noticed."""


def begin(command: Sequence[str], folder: JobFolder, root: Path | None = None) -> None:
    """Start a command that sees to a folder, in a session of its own.

    Args:
        command: what to run; ``--folder`` and the folder's path come after it.
        folder: made already; the process becomes its owner, and its stderr goes there.
        root: the user's data directory, where it is not the usual one.
    """
    environment = dict(os.environ)
    if root is not None:
        environment["HEADROOM_DATA"] = str(root)
    with open(folder.stderr, "ab") as said:
        process = subprocess.Popen(
            [*command, "--folder", str(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
    children[folder.identifier] = process
    folder.own(process.pid)


def running(folder: JobFolder) -> bool:
    """Whether its process is alive, or may not have said yet that the folder is its own.

    One of ours that has ended would stay as a zombie until it is asked for.
    """
    child = children.get(folder.identifier)
    if child is not None and child.poll() is not None:
        del children[folder.identifier]
    with suppress(OSError):
        if not (folder.path / "owner.json").exists():
            return time.time() - folder.path.stat().st_mtime < STARTING_SECONDS
    return folder.owned()


def end(folder: JobFolder) -> None:
    """Ask the folder's process to stop, in its folder and by a signal."""
    folder.ask_to_stop()
    pid = folder.owner_pid()
    if pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)


def settled(
    folder: JobFolder, ended: Callable[[], Ended | None], lost: Callable[[], Ended]
) -> Ended | None:
    """How a job ended; None while it goes on. One whose process is gone is given an end."""
    goes_on = running(folder)  # asked first: what ends meanwhile has its result by then
    return ended() or (None if goes_on else lost())


def forget(folder: JobFolder, over: bool) -> bool:
    """Delete the folder of a job that is over; False while it runs."""
    if over:
        shutil.rmtree(folder.path, ignore_errors=True)
    return over


class Jobs(Generic[Folder]):
    """All jobs of a kind: a folder each, in one of the user's data directory."""

    def __init__(self, name: str, kind: Callable[[Path], Folder]) -> None:
        self._name, self._kind = name, kind

    def place(self, root: Path | None = None) -> Path:
        """Where they are."""
        return (root or data_folder()) / self._name

    def new(self, request: BaseModel | None, root: Path | None = None) -> Folder:
        """A folder for a new one, with its request in it where it has one.

        Raises:
            OSError: when nothing can be written there.
        """
        folder = self._kind(self.place(root) / new_identifier())
        folder.path.mkdir(parents=True)
        if request is not None:
            write_whole(folder.path / "request.json", request.model_dump_json())
        return folder

    def all(self, root: Path | None = None) -> list[Folder]:
        """Every one's folder, newest first."""
        return [self._kind(path) for path in named(self.place(root)) if path.is_dir()]

    def find(self, identifier: str, root: Path | None = None) -> Folder | None:
        """The folder of that name; None when there is none."""
        path = self.place(root) / identifier
        return self._kind(path) if IDENTIFIER.fullmatch(identifier) and path.is_dir() else None
