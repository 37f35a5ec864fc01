"""Commands of ours in processes of their own, which go on without the one that began them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from planner.trial.folders import TrialFolder

ROOT = Path(__file__).resolve().parents[2]

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
