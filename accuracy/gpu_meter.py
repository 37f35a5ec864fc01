"""What a case reads of its card by phase: the allocator's peaks, the driver's bytes, time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

PEAKS = {
    "requested_bytes": "requested_bytes.all.peak",
    "allocated_bytes": "allocated_bytes.all.peak",
    "active_bytes": "active_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.peak",
}
COUNTS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free")


class Meter(Protocol):
    """What watches a run."""

    def watch(self) -> Any:
        """A context in which everything is counted."""

    def cap(self, size_bytes: int) -> None:
        """The process may reserve no more than this."""

    def reset(self) -> None:
        """Forget the peaks so far, once the device has done all it was asked."""

    def read(self) -> dict[str, int]:
        """Peaks since the last reset, and what is held now."""


class CudaMeter:
    """Peaks of PyTorch's caching allocator, and what the driver sees in use."""

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Nothing to switch on: the allocator always counts."""
        yield

    def cap(self, size_bytes: int) -> None:
        """As on a card with so many bytes for the allocator."""
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(size_bytes / total)

    def reset(self) -> None:
        """Start the allocator's peaks anew."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()

    def read(self) -> dict[str, int]:
        """The allocator's counters and the driver's used bytes.

        ``outside_bytes`` is what the driver sees beyond the allocator's segments: context,
        libraries, and other processes.
        """
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        free, total = torch.cuda.mem_get_info()
        found = {name: int(stats[key]) for name, key in PEAKS.items()}
        found |= {name: int(stats.get(name, 0)) for name in COUNTS}
        reserved = int(stats["reserved_bytes.all.current"])
        return {
            **found,
            "reserved_now_bytes": reserved,
            "driver_used_bytes": total - free,
            "outside_bytes": total - free - reserved,
        }


class PhaseLog:
    """Reads a meter where phases end; a phase entered again keeps the higher of its peaks."""

    def __init__(self, meter: Meter) -> None:
        self.steps: list[dict[str, dict[str, float]]] = []
        self.current = "build"
        self._meter = meter
        self._start = 0.0

    def step(self) -> None:
        """A step begins."""
        self.steps.append({})
        self.current = "between phases"

    def on_phase(self, name: str, begins: bool) -> None:
        """A phase begins or ends, as :class:`planner.steps.stage.Stage` calls it.

        One that ends because of an error stays the current one, and is not read.
        """
        if begins:
            self.current = name
            self._meter.reset()
            self._start = time.perf_counter()
            return
        if not self.steps or _failing():
            return
        found: dict[str, float] = dict(self._meter.read())
        found["seconds"] = time.perf_counter() - self._start
        found["entered"] = 1
        phases = self.steps[-1]
        phases[name] = _joined(phases[name], found) if name in phases else found
        self.current = "between phases"


def _joined(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {
        key: value + other[key] if key in ("seconds", "entered") else max(value, other[key])
        for key, value in one.items()
    }


def _failing() -> bool:
    return sys.exc_info()[0] is not None
