"""Where trials are kept while they run: a folder each, in the user's data directory. No torch.

``request.json`` says what was asked, ``owner.json`` whose process sees to it, ``progress.jsonl``
what happens, ``known.json`` a result's fields so far, ``result.json`` the end, ``stderr.txt``
whatever the worker and its libraries said. ``reserve`` holds the result's place on the disk until
there is one, so that a disk that fills meanwhile does not lose it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from planner.trial.ask.request import TrialRequest, read_request
from planner.trial.ask.result import TrialResult, read_result, result_json
from planner.trial.ask.spare import hand_over
from planner.trial.ask.strict import shown

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9\-]{5,63}")
TAIL_CHARACTERS = 6000
PROGRESS_BYTES = 512 * 1024
"""Of a progress file, what is read from its end."""
RESERVE, RESERVE_BYTES = "reserve", 2**20
"""A result with every term of every phase is far smaller."""
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

    def reserve(self) -> None:
        """Keep room on the disk for the result, until there is one.

        Raises:
            OSError: when there is none.
        """
        (self.path / RESERVE).write_bytes(os.urandom(RESERVE_BYTES))

    def finish(self, result: TrialResult) -> bool:
        """Write the result, once: whoever is first decides how the trial ended.

        Raises:
            OSError: when it cannot be written, not even in the place that was kept for it.
        """
        text = result_json(result) + "\n"
        for last in (False, True):
            try:
                write_whole(self.result_file, text, place=os.link)
                return True
            except FileExistsError:
                return False
            except OSError:
                if last:
                    raise
            finally:  # its place is the result's now
                with suppress(OSError):
                    (self.path / RESERVE).unlink()
        return False

    def settled(self, result: TrialResult) -> TrialResult:
        """What the trial ended with: this result, unless somebody was faster.

        One that cannot be written goes to the process that waits for it, and says what is lost.
        """
        try:
            return result if self.finish(result) else self.result() or result
        except OSError as error:
            if hand_over(result):
                return result
            why = shown(error.strerror or str(error), 200)
            note = (
                f"This result is not stored: {shown(str(self.path), 500)} cannot be written "
                f"({why}), so no list of trials will show it. Keep this output; then free some "
                "space, or set HEADROOM_DATA to a folder on another disk."
            )
            return result.model_copy(update={"notes": (*result.notes, note)})

    def amend(self, result: TrialResult) -> None:
        """Put a fuller result in the place of the one that is there."""
        write_whole(self.result_file, result_json(result) + "\n")

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
        """Say whose process sees to the trial."""
        number = os.getpid() if pid is None else pid
        owner = {"pid": number, "started": started(number)}
        write_whole(self.path / "owner.json", json.dumps(owner))

    def owner_pid(self) -> int | None:
        """The process that sees to the trial, while it is alive."""
        found = self._object("owner.json")
        try:
            pid, began = int(found["pid"]), found["started"]
        except (ValueError, KeyError, TypeError):
            return None
        return pid if alive(pid, began) else None

    def owned(self) -> bool:
        """Whether the process that sees to the trial is alive."""
        return self.owner_pid() is not None

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
    write_whole(folder.path / "request.json", request.model_dump_json())
    return folder


def trials_folder(root: Path | None = None) -> Path:
    """Where all trials are."""
    return (root or data_folder()) / "trials"


def folders(root: Path | None = None) -> list[TrialFolder]:
    """Every trial's folder, newest first."""
    return [TrialFolder(path) for path in named(trials_folder(root))]


def named(base: Path, suffix: str = "") -> list[Path]:
    """What in a folder has the name of a trial or a benchmark, newest first."""
    try:
        names = sorted(os.listdir(base), reverse=True)
    except OSError:
        return []
    pattern = re.compile(IDENTIFIER.pattern + re.escape(suffix))
    return [base / name for name in names if pattern.fullmatch(name)]


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


def write_whole(path: Path, text: str, place: Callable[[str, Path], None] = os.replace) -> None:
    """Write a file whole or not at all.

    Args:
        path: the file.
        text: all of it.
        place: brings the finished file there; ``os.link`` refuses where there is one already.

    Raises:
        OSError: when nothing can be written there.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        place(name, path)
    finally:
        with suppress(OSError):
            os.unlink(name)
