"""A stand-in for the card's counters: live bytes of a run on a CPU, in the CUDA meter's form."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from live_bytes import LiveBytes
from planner.trial.run.meter import WallClock

OUTSIDE = 1000
"""Stands for the context and other processes."""


class Capped(LiveBytes):
    """Counts live bytes, and refuses more than a cap as the allocator does."""

    cap_bytes = 0

    def meet(self, storage: torch.UntypedStorage, origin: str) -> None:
        super().meet(storage, origin)
        if self.cap_bytes and self.live > self.cap_bytes:
            raise torch.OutOfMemoryError(f"tried to allocate {storage.nbytes()} bytes\nmore words")


class Counted(WallClock):
    """Reads :class:`Capped`."""

    def __init__(self) -> None:
        self.counter = Capped()

    def watch(self) -> AbstractContextManager[Any]:
        return self.counter

    def cap(self, size_bytes: int) -> None:
        self.counter.cap_bytes = size_bytes

    def reset(self) -> None:
        self.counter.reset_peak()

    def read(self) -> dict[str, int]:
        peak = self.counter.peak
        names = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")
        return {
            **dict.fromkeys(names, peak),
            "num_alloc_retries": 0,
            "reserved_now_bytes": peak,
            "driver_used_bytes": peak + OUTSIDE,
            "outside_bytes": OUTSIDE,
        }


class Uncounted(Counted):
    """Knows nothing of a run, as one must where tensors are distributed."""

    def watch(self) -> AbstractContextManager[Any]:
        return nullcontext()


class Dies(Counted):
    """Ends its process at once, as a crash in a kernel does."""

    def cap(self, size_bytes: int) -> None:
        raise SystemExit(7)
