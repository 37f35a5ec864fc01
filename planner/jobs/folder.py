"""One job's folder: who sees to it, how far it is, what was said, and whether it should end.

``request.json`` says what was asked, ``owner.json`` whose process sees to it, ``progress.jsonl``
what happens, ``known.json`` a result's fields so far, ``result.json`` the end, ``stderr.txt``
whatever the worker and its libraries said.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.jobs.storage import write_whole

TAIL_CHARACTERS = 6000
PROGRESS_BYTES = 512 * 1024
"""Of a progress file, what is read from its end."""
PROFILER = "USDT:"
"""Lines that torch's profiler writes to stderr, whatever happens."""


@dataclass(frozen=True, slots=True)
class JobFolder:
    """One job's files."""

    path: Path

    @property
    def identifier(self) -> str:
        """The job's name."""
        return self.path.name

    @property
    def stderr(self) -> Path:
        """What the worker said."""
        return self.path / "stderr.txt"

    @property
    def result_file(self) -> Path:
        """How it ended."""
        return self.path / "result.json"

    def say(self, name: str, **more: Any) -> None:
        """Add a line of progress; a full disk does not end a job."""
        line = json.dumps({"at": round(time.time(), 3), "name": name, **more})
        with (
            suppress(OSError),
            open(self.path / "progress.jsonl", "a", encoding="utf-8") as file,
        ):
            file.write(line + "\n")

    def progress(self) -> list[dict[str, Any]]:
        """Lines of progress, oldest first; a line that is being written is left out."""
        found = []
        for line in _last_lines(self.path / "progress.jsonl", PROGRESS_BYTES):
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and isinstance(event.get("name"), str):
                    found.append(event)
        return found

    def remember(self, known: dict[str, Any]) -> None:
        """Keep a result's fields so far, if there is room."""
        with suppress(OSError):
            write_whole(self.path / "known.json", json.dumps(known))

    def known(self) -> dict[str, Any]:
        """A result's fields so far; empty when there are none, or they cannot be read."""
        return self._object("known.json")

    def _object(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads((self.path / name).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def stderr_tail(self) -> str:
        """The end of what the worker said, without the profiler's own lines."""
        lines = _last_lines(self.stderr, 4 * TAIL_CHARACTERS)
        kept = "\n".join(line for line in lines if not line.startswith(PROFILER))
        return kept[-TAIL_CHARACTERS:]

    def last_words(self) -> str:
        """The last line of what the worker said."""
        return (self.stderr_tail().strip().splitlines() or ["it said nothing"])[-1]

    def own(self, pid: int | None = None) -> None:
        """Say whose process sees to the job."""
        number = os.getpid() if pid is None else pid
        owner = {"pid": number, "started": started(number)}
        write_whole(self.path / "owner.json", json.dumps(owner))

    def owner_pid(self) -> int | None:
        """The process that sees to the job, while it is alive."""
        found = self._object("owner.json")
        try:
            pid, began = int(found["pid"]), found["started"]
        except (ValueError, KeyError, TypeError):
            return None
        return pid if alive(pid, began) else None

    def owned(self) -> bool:
        """Whether the process that sees to the job is alive."""
        return self.owner_pid() is not None

    def ask_to_stop(self) -> None:
        """Leave word that the job should end."""
        (self.path / "stop").touch()

    def asked_to_stop(self) -> bool:
        """Whether the job was asked to stop."""
        return (self.path / "stop").exists()


def alive(pid: int, began: int | None) -> bool:
    """Whether a process runs and is the one that was meant, not a later one of that number."""
    state = _stat(pid)
    if state is None:
        return False
    if state == ("", 0):  # a system without /proc: the number is all there is
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True
    return state[0] not in ("Z", "X") and (began is None or state[1] == began)


def started(pid: int) -> int | None:
    """When a process began, in ticks since the system did; None where nobody says."""
    state = _stat(pid)
    return state[1] or None if state else None


def _stat(pid: int) -> tuple[str, int] | None:
    if not os.path.isdir("/proc/self"):
        return "", 0
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    # The name in parentheses may hold anything, spaces and parentheses included.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _last_lines(path: Path, size_bytes: int) -> list[str]:
    """The lines in the last so many bytes of a file; none where it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size_bytes))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
