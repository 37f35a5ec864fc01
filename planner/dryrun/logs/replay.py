"""A log replayed through the simulated caching allocator: reserved bytes, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.dryrun.allocator import (
    Allocator,
    AllocatorSettings,
    OutOfDeviceMemory,
    TraceEntry,
)
from planner.dryrun.logs.curve import last_step
from planner.dryrun.logs.log import BIRTH, DEATH, EMPTY_CACHE, PHASE, SCRATCH, Log

WORKSPACES = (-2, -3)
"""Keys of the two cuBLAS workspaces, which live as long as the process."""
KERNEL = -4
"""Key of a kernel's scratch."""


LEVELS = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")


@dataclass(slots=True)
class Held:
    """Peaks of one phase in the allocator's words."""

    requested_bytes: int = 0
    allocated_bytes: int = 0
    active_bytes: int = 0
    reserved_bytes: int = 0
    found_bytes: int = 0
    """Reserved where it begins, in use or cached."""

    @property
    def inherited_bytes(self) -> int:
        """What it finds cached and never uses."""
        return max(0, self.found_bytes - self.allocated_bytes)

    def raise_to(self, allocator: Allocator) -> None:
        """Take in the allocator's peaks since they were reset."""
        for level in LEVELS:
            before, now = getattr(self, level), getattr(allocator, f"peak_{level}")
            setattr(self, level, max(before, now))


@dataclass(slots=True)
class Replay:
    """What the allocator held by phase in the last step, and its state at the end."""

    phases: dict[str, Held]
    allocator: Allocator
    alloc_retries: int = 0
    """How often the last step had to give back cached memory to stay within the card."""
    out_of_memory: bool = False
    """Whether that did not suffice, so that this is what an endless card would hold."""


def replay_within(
    log: Log,
    settings: AllocatorSettings,
    *,
    workspace_bytes: int = 0,
    trace: list[TraceEntry] | None = None,
) -> Replay:
    """Replay on a card of ``settings.capacity_bytes``, or where that does not do on an endless one.

    Then the figures say what is needed, and not how far the step came.
    """
    try:
        return replay(log, settings, workspace_bytes=workspace_bytes, trace=trace)
    except OutOfDeviceMemory:
        if trace is not None:
            trace.clear()
    endless = replace(settings, capacity_bytes=None)
    found = replay(log, endless, workspace_bytes=workspace_bytes, trace=trace)
    return replace(found, out_of_memory=True)


def replay(
    log: Log,
    settings: AllocatorSettings,
    *,
    workspace_bytes: int = 0,
    trace: list[TraceEntry] | None = None,
) -> Replay:
    """Allocate and free as the log says.

    Args:
        log: of a whole step at full depth.
        settings: of the allocator.
        workspace_bytes: of one of the two cuBLAS handles.
        trace: a list that is given every event, for a snapshot.

    Raises:
        OutOfDeviceMemory: the settings' capacity does not suffice.
    """
    allocator = Allocator(settings, trace)
    for key in WORKSPACES if workspace_bytes else ():
        allocator.allocate(key, workspace_bytes, 0, "cuBLAS workspace")
    phases: dict[str, Held] = {}
    current: Held | None = None
    retries = 0
    start, made = last_step(log), log.made
    allocate, free = allocator.allocate, allocator.free
    hosted = {key for key, each in made.items() if each.host}
    for at, (kind, key, value) in enumerate(log.events):
        if kind <= DEATH and key in hosted:
            continue
        if at == start:
            retries = allocator.num_alloc_retries
        if kind == DEATH:
            free(key)
        elif kind == BIRTH:
            birth = made[key]
            allocate(key, value, birth.stream, birth.op if trace is not None else "")
        elif kind == SCRATCH:
            allocate(KERNEL, value, 0, log.names[key])
            free(KERNEL)
        elif kind == EMPTY_CACHE:
            allocator.empty_cache()
        elif kind == PHASE and at >= start:
            if current is not None:
                current.raise_to(allocator)
                current = None
            if value:
                current = phases.setdefault(log.names[key], Held())
                current.found_bytes = max(current.found_bytes, allocator.reserved_bytes)
                allocator.reset_peaks()
    return Replay(phases, allocator, allocator.num_alloc_retries - retries)
