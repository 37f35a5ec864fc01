"""One job's folder: who sees to it, how far it is, what was said, and whether it should end.

``request.json`` says what was asked, ``owner.json`` whose process sees to it, ``progress.jsonl``
what happens, ``known.json`` a result's fields so far, ``result.json`` the end, ``stderr.txt``
whatever the worker and its libraries said. ``reserve`` holds the result's place on the disk until
there is one, so that a disk that fills meanwhile does not lose it.
"""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from planner.jobs.spare import hand_over
from planner.jobs.storage import write_whole
from planner.jobs.strict import JobResult, shown

Request = TypeVar("Request")
Result = TypeVar("Result", bound=JobResult)

RESERVE, RESERVE_BYTES = "reserve", 2**20
"""A result with every term of every phase is far smaller."""
TAIL_CHARACTERS = 6000
PROGRESS_BYTES = 512 * 1024
"""Of a progress file, what is read from its end."""
PROFILER = "USDT:"
"""Lines that torch's profiler writes to stderr, whatever happens."""


@dataclass(frozen=True, slots=True)
class JobFolder(Generic[Request, Result]):
    """One job's files; what its request and its result are each kind of job says."""

    path: Path

    @abstractmethod
    def request(self) -> Request:
        """What was asked.

        Raises:
            ValueError: when the file is damaged.
            OSError: when it is not there.
        """

    @abstractmethod
    def result(self) -> Result | None:
        """How it ended; None while it goes on.

        Raises:
            ValueError: when the file is damaged.
        """

    @abstractmethod
    def ended(self, status: Any, reason: str, seconds: float) -> Result:
        """Finish the job in its process's place, with what that had found out until then."""

    def lost(self) -> Result:
        """The end of a job whose process is gone and left no result."""
        times = [event["at"] for event in self.progress() if isinstance(event.get("at"), float)]
        spent = times[-1] - times[0] if times else 0.0
        if self.asked_to_stop():  # before its process could answer to that
            return self.ended("stopped", "It was stopped.", spent)
        reason = f"It was killed from outside in {self.doing()}, and left no result."
        return self.ended("killed", reason, spent)

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

    def doing(self) -> str:
        """What the job was last heard to do."""
        return doing(self.progress())

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

    def found(self, read: Callable[[bytes], Result]) -> Result | None:
        """The result as it stands in the folder; None without one."""
        try:
            return read(self.result_file.read_bytes())
        except FileNotFoundError:
            return None

    def reserve(self) -> None:
        """Keep room on the disk for the result, until there is one.

        Raises:
            OSError: when there is none.
        """
        (self.path / RESERVE).write_bytes(os.urandom(RESERVE_BYTES))

    def finish(self, result: Result) -> bool:
        """Write the result, once: whoever is first decides how the job ended.

        Raises:
            OSError: when it cannot be written, not even in the place that was kept for it.
        """
        text = result.model_dump_json(by_alias=True) + "\n"
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

    def settled(self, result: Result) -> Result:
        """What the job ended with: this result, unless somebody was faster.

        One that cannot be written goes to the process that waits for it, and says what is lost.
        """
        try:
            return result if self.finish(result) else self.result() or result
        except OSError as error:
            if hand_over(result.model_dump_json(by_alias=True)):
                return result
            why = shown(error.strerror or str(error), 200)
            note = (
                f"This result is not stored: {shown(str(self.path), 500)} cannot be written "
                f"({why}), so no list will show it. Keep this output; then free some space, or set "
                "HEADROOM_DATA to a folder on another disk."
            )
            return result.model_copy(update={"notes": (*result.notes, note)})

    def stderr_tail(self) -> str:
        """The end of what the worker said, without the profiler's own lines."""
        lines = _last_lines(self.stderr, 4 * TAIL_CHARACTERS)
        kept = "\n".join(line for line in lines if not line.startswith(PROFILER))
        return shown(kept, TAIL_CHARACTERS, lines=True)

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


def doing(events: Iterable[Mapping[str, Any]]) -> str:
    """What a job was last heard to do, by its lines of progress."""
    found = "its beginning"
    for event in events:
        found = str(event.get("phase") or event.get("stage") or event["name"])
    return shown(found, 100)


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
