"""Host RAM and GPU memory of this process before, in and after each stage.

Host RAM is anonymous memory (``RssAnon`` of ``/proc/self/status``): files that are mapped are the
system's to drop and count nowhere. The kernel keeps no peak of it, so a thread looks every few
milliseconds. Imports no torch; where it is loaded, its allocator is asked.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from planner.jobs.host_memory import memory_bytes

LOOK_SECONDS = 0.004
SAY_SECONDS = 0.5
STATUS = "/proc/self/status"

Say = Callable[..., None]
"""A line of progress: a name and its values."""


def anonymous_bytes() -> int | None:
    """Anonymous memory of this process; None where nobody says."""
    return memory_bytes("RssAnon", STATUS)


def gpu_bytes(device: str) -> int | None:
    """What torch's allocator holds of a card; None for a processor."""
    if not device.startswith("cuda") or "torch" not in sys.modules:
        return None
    return int(sys.modules["torch"].cuda.memory_reserved(device))


def give_back() -> None:
    """Let glibc return what is free in its heap: small lists would count as held otherwise."""
    with suppress(OSError, AttributeError):  # another C library keeps it
        ctypes.CDLL(None).malloc_trim(0)


@dataclass
class Peak:
    """The highest that was seen, while somebody looks."""

    bytes: int | None = None

    def see(self) -> None:
        """Look once."""
        now = anonymous_bytes()
        if now is not None:
            self.bytes = max(self.bytes or 0, now)


class Meter:
    """Watches this process and says what its stages hold."""

    def __init__(self, say: Say, device: str = "cpu") -> None:
        self._say, self.device = say, device

    @contextmanager
    def stage(self, name: str) -> Iterator[Step]:
        """Watch a block; its figures are said when it ends well."""
        peak = Peak()
        over = threading.Event()
        before, gpu_before = anonymous_bytes(), gpu_bytes(self.device)
        self._say("begins", stage=name, host_bytes=before, gpu_bytes=gpu_before)

        def look() -> None:
            while not over.wait(LOOK_SECONDS):
                peak.see()

        watch = threading.Thread(target=look, name="meter", daemon=True)
        peak.see()
        watch.start()
        began = time.perf_counter()
        try:
            yield Step(self, self._say, name, peak)
        finally:
            spent = time.perf_counter() - began
            over.set()
            watch.join()
        peak.see()
        self._say(
            "ended",
            stage=name,
            seconds=round(spent, 4),
            host_before_bytes=before,
            host_peak_bytes=peak.bytes,
            host_after_bytes=anonymous_bytes(),
            gpu_before_bytes=gpu_before,
            gpu_peak_bytes=self._gpu_peak(),
            gpu_after_bytes=gpu_bytes(self.device),
        )

    def _gpu_peak(self) -> int | None:
        if gpu_bytes(self.device) is None:
            return None
        cuda: Any = sys.modules["torch"].cuda
        found = int(cuda.max_memory_reserved(self.device))
        cuda.reset_peak_memory_stats(self.device)
        return found


class Step:
    """A stage under way: says how far it is, twice a second at most."""

    def __init__(self, meter: Meter, say: Say, name: str, peak: Peak) -> None:
        self._meter, self._say, self._name, self.peak = meter, say, name, peak
        self._said = 0.0

    def at(self, done: int, of: int, **more: object) -> None:
        """So many prompts of all are done."""
        if time.monotonic() - self._said < SAY_SECONDS and done < of and not more:
            return
        self._said = time.monotonic()
        self._say(
            "at",
            stage=self._name,
            done=done,
            of=of,
            host_bytes=anonymous_bytes(),
            peak_bytes=self.peak.bytes,
            gpu_bytes=gpu_bytes(self._meter.device),
            **more,
        )
