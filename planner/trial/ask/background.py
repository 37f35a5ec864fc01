"""Commands of ours in processes of their own, which go on without the one that began them.

Each sees to a folder: it is begun with one, found by it, and ended through it. No torch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from planner.trial.ask.folders import IDENTIFIER, TrialFolder

ROOT = Path(__file__).resolve().parents[3]

STARTING_SECONDS = 5.0
"""A folder without an owner may be that of a process that has just begun."""

children: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that this one began, by their folder's name, so that their ends are noticed."""


def begin(command: Sequence[str], folder: TrialFolder, root: Path | None = None) -> None:
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


def notice(folder: TrialFolder) -> None:
    """Take note of a process that has ended, which would stay as a zombie otherwise."""
    child = children.get(folder.identifier)
    if child is not None and child.poll() is not None:
        del children[folder.identifier]


def starting(folder: TrialFolder) -> bool:
    """Whether its process may not have said yet that the folder is its own."""
    with suppress(OSError):
        if not (folder.path / "owner.json").exists():
            return time.time() - folder.path.stat().st_mtime < STARTING_SECONDS
    return False


def found(identifier: str, base: Path) -> TrialFolder | None:
    """The folder of that name among those in ``base``; None when there is none."""
    if not IDENTIFIER.fullmatch(identifier):
        return None
    folder = TrialFolder(base / identifier)
    return folder if folder.path.is_dir() else None


def end(folder: TrialFolder) -> None:
    """Ask the folder's process to stop, in its folder and by a signal."""
    folder.ask_to_stop()
    pid = folder.owner_pid()
    if pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
