"""Where trials are kept while they run: a folder each, in the user's data directory. No torch.

``request.json`` says what was asked, ``owner.json`` whose process sees to it, ``progress.jsonl``
what happens, ``known.json`` a result's fields so far, ``result.json`` the end, ``stderr.txt``
whatever the worker and its libraries said.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from planner.trial.ask.request import TrialRequest, read_request, request_json
from planner.trial.ask.result import TrialResult, read_result, result_json

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9\-]{5,63}")
TAIL_CHARACTERS = 6000
PROGRESS_BYTES = 512 * 1024
"""Of a progress file, what is read from its end."""
PROFILER = "USDT:"
"""Lines that torch's profiler writes to stderr, whatever happens."""


HISTORY_SETTING = "HEADROOM_HISTORY_URL"
HISTORY_FILE = "trials.sqlite"


def data_folder() -> Path:
    """Where the user's data is: ``HEADROOM_DATA``, or the system's usual place."""
    given = os.environ.get("HEADROOM_DATA")
    if given:
        return Path(given)
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "headroom"


def has_history() -> bool:
    """Whether a history may hold trials: a database is named, or there is its file."""
    named = os.environ.get(HISTORY_SETTING, "").strip()
    return bool(named) or (data_folder() / HISTORY_FILE).exists()


def new_identifier() -> str:
    """A name for a trial: when, and six characters against coincidence."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class TrialFolder:
    """One trial's files."""

    path: Path

    @property
    def identifier(self) -> str:
        """The trial's name."""
        return self.path.name

    @property
    def stderr(self) -> Path:
        """What the worker said."""
        return self.path / "stderr.txt"

    @property
    def result_file(self) -> Path:
        """How it ended."""
        return self.path / "result.json"

    def request(self) -> TrialRequest:
        """What was asked.

        Raises:
            ValueError: when the file is damaged.
            OSError: when it is not there.
        """
        return read_request((self.path / "request.json").read_text("utf-8"))

    def result(self) -> TrialResult | None:
        """How it ended; None while it runs.

        Raises:
            ValueError: when the file is damaged.
        """
        try:
            return read_result(self.result_file.read_bytes())
        except FileNotFoundError:
            return None

    def finish(self, result: TrialResult) -> bool:
        """Write the result, once: whoever is first decides how the trial ended."""
        handle, name = tempfile.mkstemp(dir=self.path, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(result_json(result) + "\n")
        try:
            os.link(name, self.result_file)
        except FileExistsError:
            return False
        finally:
            os.unlink(name)
        return True

    def amend(self, result: TrialResult) -> None:
        """Put a fuller result in the place of the one that is there."""
        _write(self.result_file, result_json(result) + "\n")

    def say(self, name: str, **more: Any) -> None:
        """Add a line of progress; a full disk does not end a trial."""
        line = json.dumps({"at": round(time.time(), 3), "name": name, **more})
        with (
            suppress(OSError),
            open(self.path / "progress.jsonl", "a", encoding="utf-8") as file,
        ):
            file.write(line + "\n")

    def progress(self) -> list[dict[str, Any]]:
        """Lines of progress, oldest first; a line that is being written is left out."""
        try:
            with open(self.path / "progress.jsonl", "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - PROGRESS_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        found = []
        for line in text.splitlines():
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and isinstance(event.get("name"), str):
                    found.append(event)
        return found

    def remember(self, known: dict[str, Any]) -> None:
        """Keep a result's fields so far, if there is room."""
        with suppress(OSError):
            _write(self.path / "known.json", json.dumps(known))

    def known(self) -> dict[str, Any]:
        """A result's fields so far; empty when there are none, or they cannot be read."""
        try:
            found = json.loads((self.path / "known.json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def stderr_tail(self) -> str:
        """The end of what the worker said, without the profiler's own lines."""
        try:
            with open(self.stderr, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 4 * TAIL_CHARACTERS))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line for line in text.splitlines() if not line.startswith(PROFILER)]
        return "\n".join(lines)[-TAIL_CHARACTERS:]

    def own(self, pid: int | None = None) -> None:
        """Say whose process sees to the trial."""
        number = os.getpid() if pid is None else pid
        owner = {"pid": number, "started": started(number)}
        _write(self.path / "owner.json", json.dumps(owner))

    def owned(self) -> bool:
        """Whether the process that sees to the trial is alive."""
        pid, began = self._owner()
        return pid is not None and alive(pid, began)

    def owner_pid(self) -> int | None:
        """The process that sees to the trial, while it is alive."""
        pid, began = self._owner()
        return pid if pid is not None and alive(pid, began) else None

    def _owner(self) -> tuple[int | None, int | None]:
        try:
            found = json.loads((self.path / "owner.json").read_text("utf-8"))
            return int(found["pid"]), found["started"]
        except (OSError, ValueError, KeyError, TypeError):
            return None, None

    def ask_to_stop(self) -> None:
        """Leave word that the trial should end."""
        (self.path / "stop").touch()

    def asked_to_stop(self) -> bool:
        """Whether somebody wants the trial to end."""
        return (self.path / "stop").exists()


def new_folder(request: TrialRequest, root: Path | None = None) -> TrialFolder:
    """A folder for a new trial, with its request in it.

    Raises:
        OSError: when nothing can be written there.
    """
    folder = TrialFolder(trials_folder(root) / new_identifier())
    folder.path.mkdir(parents=True)
    _write(folder.path / "request.json", request_json(request))
    return folder


def trials_folder(root: Path | None = None) -> Path:
    """Where all trials are."""
    return (root or data_folder()) / "trials"


def folders(root: Path | None = None) -> list[TrialFolder]:
    """Every trial's folder, newest first."""
    try:
        names = sorted(os.listdir(trials_folder(root)), reverse=True)
    except OSError:
        return []
    return [TrialFolder(trials_folder(root) / n) for n in names if IDENTIFIER.fullmatch(n)]


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


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
