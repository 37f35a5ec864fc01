"""One trial per device at a time: a lock that survives crashes, and a queue in front of it.

Whoever waits holds a ticket, a file locked by its process; tickets of processes that are gone
are taken away by whoever looks. Locks are the kernel's (flock): they end with the processes that
hold them, however those end. No torch.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from planner.background import GivenUp
from planner.jobs.storage import data_folder

POLL_SECONDS = 0.2


class Turn:
    """A place in the queues of some devices, and then the devices themselves."""

    def __init__(self, devices: Sequence[str], identifier: str, root: Path | None = None) -> None:
        """Take a ticket for every device, in one order for everybody."""
        base = (root or data_folder()) / "devices"
        self._folders = [base / device.replace(":", "-") for device in sorted(devices)]
        self._name = f"{time.time_ns():020d}-{identifier}"
        self._tickets = [_ticket(folder / "queue", self._name) for folder in self._folders]
        self.handles: list[int] = []
        """Open files whose locks are the devices; a worker that inherits them holds them too."""

    def wait(self, waiting: Callable[[int], None], given_up: Callable[[], bool]) -> None:
        """Return when the devices are this process's.

        Args:
            waiting: told how many trials are ahead, whenever that changes.
            given_up: asked again and again.

        Raises:
            GivenUp: when ``given_up`` says so.
        """
        said = 0
        while True:
            ahead = max(_ahead(folder / "queue", self._name) for folder in self._folders)
            if ahead == 0 and self._take():
                return
            if given_up():
                raise GivenUp
            # Without anybody ahead, the device is held by a worker that outlives its process.
            if max(ahead, 1) != said:
                said = max(ahead, 1)
                waiting(said)
            time.sleep(POLL_SECONDS)

    def _take(self) -> bool:
        while len(self.handles) < len(self._folders):
            folder = self._folders[len(self.handles)]
            handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                return False
            self.handles.append(handle)
        return True

    def close(self) -> None:
        """Give tickets and devices back."""
        for folder, ticket in zip(self._folders, self._tickets, strict=True):
            with suppress(OSError):
                (folder / "queue" / self._name).unlink()
            os.close(ticket)
        for handle in self.handles:
            os.close(handle)
        self._tickets, self._folders, self.handles = [], [], []


def _ticket(queue: Path, name: str) -> int:
    """A locked file under its name; nobody sees it before it is locked."""
    queue.mkdir(parents=True, exist_ok=True)
    hidden = queue / f".{name}"
    handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.rename(hidden, queue / name)
    return handle


def _ahead(queue: Path, name: str) -> int:
    """Living tickets before this one."""
    count = 0
    for other in sorted(os.listdir(queue)):
        if other >= name or other.startswith("."):
            continue
        try:
            handle = os.open(queue / other, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            count += 1
        else:
            with suppress(OSError):
                (queue / other).unlink()
        finally:
            os.close(handle)
    return count
