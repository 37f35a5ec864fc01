"""Host memory: what is available, and what a process and its children hold. No torch.

Read from ``/proc``; where there is none nobody is guarded, and None says so.
"""

from __future__ import annotations

import os
from pathlib import Path

GUARDED = 0.8
"""Share of the available memory that a trial's processes may hold, unless it is told otherwise."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_bytes(key: str) -> int | None:
    """A line of ``/proc/meminfo`` in bytes."""
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def available_bytes() -> int | None:
    """What new processes can have without swapping, as the system estimates it."""
    return memory_bytes("MemAvailable")


def guarded_bytes(asked: int | None) -> int | None:
    """What a trial's processes may hold together: what was asked for, or most of what is there."""
    if asked is not None:
        return asked
    available = available_bytes()
    return None if available is None else int(GUARDED * available)


def resident_bytes(pid: int) -> int | None:
    """Resident bytes of a process and all its descendants; None where nobody says."""
    own = _resident(pid)
    if own is None:
        return None
    return own + sum(resident_bytes(child) or 0 for child in _children(pid))


def _resident(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text("ascii")
            found += map(int, text.split())
    except (OSError, ValueError):
        return found
    return found
