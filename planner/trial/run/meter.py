"""What a run reads of its device by phase: the allocator's peaks, the driver's bytes, time.

Imports torch.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch

from planner.jobs.host_memory import memory_bytes

PEAKS = {
    "requested_bytes": "requested_bytes.all.peak",
    "allocated_bytes": "allocated_bytes.all.peak",
    "active_bytes": "active_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.peak",
}
COUNTS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free")
USED = "driver_used_bytes"
RETRIES = "num_alloc_retries"
SUMMED = ("seconds", "entered", "retries")


class WallClock:
    """Time as the process sees it."""

    _start = 0.0

    def start(self) -> None:
        """Time begins."""
        self._start = time.perf_counter()

    def seconds(self) -> float:
        """Since :meth:`start`."""
        return time.perf_counter() - self._start


class ProcessMeter(WallClock):
    """The process's resident memory; its peak by phase where Linux lets it be reset."""

    def watch(self) -> AbstractContextManager[Any]:
        """A context in which everything is counted: nothing to switch on here."""
        return nullcontext()

    def cap(self, size_bytes: int) -> None:
        """A process has no cap of its own; ``Allocations`` has one."""

    def reset(self) -> None:
        """Start the peak of the resident memory anew."""
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", "ascii")

    def read(self) -> dict[str, int]:
        """``host_bytes``: the peak of resident bytes; nothing where the system does not say."""
        found = memory_bytes("VmHWM", "/proc/self/status")
        return {} if found is None else {"host_bytes": found}


class CudaMeter(ProcessMeter):
    """Peaks of PyTorch's caching allocator, what the driver sees in use, and device events."""

    def __init__(self, device: int = 0) -> None:
        self.device = device

    def cap(self, size_bytes: int) -> None:
        """As on a card with so many bytes for the allocator."""
        total = torch.cuda.get_device_properties(self.device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, size_bytes / total), self.device)

    def reset(self) -> None:
        """Start the allocator's peaks anew."""
        torch.cuda.synchronize(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        super().reset()

    def start(self) -> None:
        """Put an event into the stream."""
        self._begin = _now()

    def seconds(self) -> float:
        """Between that event and one put into the stream now."""
        end = _now()
        torch.cuda.synchronize(self.device)
        return float(self._begin.elapsed_time(end)) / 1e3

    def read(self) -> dict[str, int]:
        """The allocator's counters and the driver's used bytes.

        ``outside_bytes`` is what the driver sees beyond the allocator's segments: context,
        libraries, and other processes.
        """
        torch.cuda.synchronize(self.device)
        stats = torch.cuda.memory_stats(self.device)
        free, total = torch.cuda.mem_get_info(self.device)
        reserved = int(stats["reserved_bytes.all.current"])
        return {
            **{name: int(stats[key]) for name, key in PEAKS.items()},
            **{name: int(stats.get(name, 0)) for name in COUNTS},
            **super().read(),
            "reserved_now_bytes": reserved,
            USED: total - free,
            "outside_bytes": total - free - reserved,
        }


def _now() -> Any:
    event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


class PhaseLog:
    """Reads a meter where phases end; a phase entered again keeps the higher of its peaks."""

    def __init__(self, meter: ProcessMeter) -> None:
        self.steps: list[dict[str, dict[str, float]]] = []
        self.entries: list[dict[str, list[float]]] = []
        """Seconds of each entry of a phase, by step."""
        self.current = "build"
        self._meter = meter
        self._used: int | None = None
        self._retries = 0

    def step(self) -> None:
        """A step begins."""
        self.steps.append({})
        self.entries.append({})
        now = self._meter.read()
        self._used, self._retries = now.get(USED), now.get(RETRIES, 0)
        self.current = "between phases"

    def on_phase(self, name: str, begins: bool) -> None:
        """A phase begins or ends, as :class:`planner.steps.stage.Stage` calls it.

        One that ends because of an error stays the current one, and is not read.
        """
        if begins:
            self.current = name
            self._meter.reset()
            self._meter.start()
            return
        if not self.steps or sys.exc_info()[0] is not None:
            return
        seconds = self._meter.seconds()
        found: dict[str, float] = {**self._meter.read(), "seconds": seconds, "entered": 1}
        if RETRIES in found:
            # The counter is the process's; what it grew by since the phase before is this one's.
            found["retries"] = found[RETRIES] - self._retries
            self._retries = int(found[RETRIES])
        phases = self.steps[-1]
        if self._used is not None and USED in found:
            # What the driver saw when the phase before ended is what it sees as this one begins.
            found["before_bytes"], found["after_bytes"] = self._used, found[USED]
            self._used = int(found[USED])
        phases[name] = _joined(phases[name], found) if name in phases else found
        self.entries[-1].setdefault(name, []).append(seconds)
        self.current = "between phases"


def _joined(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    joined = {
        key: value + other[key] if key in SUMMED else max(value, other[key])
        for key, value in one.items()
    }
    if "before_bytes" in one:
        joined["before_bytes"], joined["after_bytes"] = one["before_bytes"], other["after_bytes"]
    return joined

