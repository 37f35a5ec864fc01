"""Host memory: what is available, and what a process and its children hold. No torch.

Read from ``/proc``; where there is none nobody is guarded, and None says so.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

GUARDED = 0.8
"""Share of the available memory that a trial's processes may hold, unless it is told otherwise."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_bytes(key: str, file: str = "/proc/meminfo") -> int | None:
    """A line of ``/proc/meminfo``, or of another such file, in bytes."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path(file).read_text("ascii").splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
    return None


def guarded_bytes(asked: int | None) -> int | None:
    """What a trial's processes may hold together: what was asked for, or most of what is there."""
    if asked is not None:
        return asked
    available = memory_bytes("MemAvailable")  # without swapping, as the system estimates it
    return None if available is None else int(GUARDED * available)


def resident_bytes(pid: int) -> int | None:
    """Resident bytes of a process and all its descendants; None where nobody says."""
    try:
        own = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None
    return own + sum(resident_bytes(child) or 0 for child in _children(pid))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError, ValueError):
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text("ascii")
            found += map(int, text.split())
    return found
