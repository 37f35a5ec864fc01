"""What PyTorch's CPU allocator says of a real run: its own events, read by torch's profiler.

Nothing here counts storages or knows a formula: every allocation and every free reports its bytes
to the profiler, scratch inside kernels included. Phases are marks in the same trace. Imports torch.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function

from planner.trial.ask.endings import MemoryEnded

PHASE = "phase: "
LAST_STEP = "last step"
ALLOCATOR = "[memory]"


class Marks:
    """Names stretches of a profile."""

    def __init__(self) -> None:
        self._phase = ExitStack()

    def phase(self, name: str, begins: bool) -> None:
        """A phase begins or ends."""
        self._phase.close()
        if begins:
            self._phase.enter_context(record_function(PHASE + name))

    @contextmanager
    def last_step(self) -> Iterator[None]:
        """The step whose phases count."""
        with record_function(LAST_STEP):
            yield


def peak_bytes(run: Callable[[Marks], Any]) -> dict[str, int]:
    """Most live bytes in every phase of the last step of a run, in the order phases begin.

    Everything that was allocated since the run began counts until it is freed.
    """
    allocations = Allocations()
    with allocations.window(""):
        kept = run(Marks())
    del kept
    return allocations.peaks


class Allocations:
    """Live bytes of one run, watched in windows that follow each other.

    A tensor made in one window and freed in a later one is taken out of the count there; what is
    freed between windows stays in it. ``cap_bytes`` plays a device with no more memory: the
    allocation that goes beyond it ends the run, once its window is over. Up to that instant a
    run under the cap would have done the same.

    The profiler hears the frees of the thread that it watches and of no other, so only this thread
    collects garbage: as a window begins, where the run itself does, and as it ends.
    """

    def __init__(self, cap_bytes: int | None = None) -> None:
        self.cap_bytes = cap_bytes
        self.live_bytes = 0
        self.peaks: dict[str, int] = {}
        """Most live bytes of each phase of the last window."""

    @contextmanager
    def window(self, outside: str, trace: Path | None = None) -> Iterator[None]:
        """Count what is allocated inside.

        Args:
            outside: what to call the stretches between phases.
            trace: where to write the window's events for a trace viewer.

        Raises:
            MemoryEnded: when an allocation went beyond the cap.
        """
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler, _heard():
            yield
        if trace is not None:
            profiler.export_chrome_trace(str(trace))
        events = profiler.profiler.kineto_results.events()
        self._take(events, outside)

    def _take(self, events: Iterable[Any], outside: str) -> None:
        changes: list[tuple[int, int]] = []
        stretches: list[tuple[int, int, str]] = []
        begins = 0
        for event in events:
            name = event.name()
            if name == ALLOCATOR:
                changes.append((event.start_ns(), event.nbytes()))
            elif name == LAST_STEP:
                begins = event.start_ns()
            elif name.startswith(PHASE):
                stretches.append((event.start_ns(), event.end_ns(), name.removeprefix(PHASE)))
        changes.sort(key=lambda change: change[0])
        self.peaks = {}
        at = 0
        for start, end, name in sorted(stretches):
            at, _ = self._until(changes, at, start, outside, inclusive=False)
            at, highest = self._until(changes, at, end, name, inclusive=True)
            if start >= begins:
                self.peaks[name] = max(self.peaks.get(name, 0), highest)
        self._until(changes, at, None, outside, inclusive=True)

    def _until(
        self, changes: list[tuple[int, int]], at: int, end: int | None, phase: str, inclusive: bool
    ) -> tuple[int, int]:
        """Live bytes up to a time; where that is, and the highest on the way."""
        highest = self.live_bytes
        while at < len(changes):
            time, size = changes[at]
            if end is not None and (time > end or (time == end and not inclusive)):
                break
            if self.cap_bytes and size > 0 and self.live_bytes + size > self.cap_bytes:
                raise MemoryEnded(phase, size, self.live_bytes, self.cap_bytes)
            self.live_bytes += size
            highest = max(highest, self.live_bytes)
            at += 1
        return at, highest


@contextmanager
def _heard() -> Iterator[None]:
    """Python's collector waits: whichever thread sets it off frees what lies in circles."""
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        if was:
            gc.enable()
