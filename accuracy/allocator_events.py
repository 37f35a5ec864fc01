"""What PyTorch's CPU allocator says of a real run: its own events, read by torch's profiler.

Nothing here counts storages or knows a formula: every allocation and every free reports its bytes
to the profiler, scratch inside kernels included. Phases are marks in the same trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from planner.steps.stage import Place, Stage

PHASE = "phase: "
LAST_STEP = "last step"
ALLOCATOR = "[memory]"


class CopyingStage(Stage):
    """A real run on the CPU whose transfers are copies.

    Host and device are the same memory here, and a transfer between them would do nothing. A copy
    takes its bytes at one place before it frees them at the other, as between two memories.
    """

    def move(self, tensors: Iterable[torch.Tensor], place: Place) -> None:
        """Copy each tensor, and free the one that it was."""
        for tensor in tensors:
            tensor.data = tensor.data.clone()

    def saved_on_host(self) -> Any:
        """Keep a copy of what autograd saves, and hand out a copy of that."""
        return torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone)


class Marks:
    """Names stretches of a profile."""

    def __init__(self) -> None:
        self._phase = ExitStack()
        self._step = ExitStack()

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
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = run(Marks())
    del kept
    return _peaks(profiler.profiler.kineto_results.events())


def _peaks(events: Iterable[Any]) -> dict[str, int]:
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
    found: dict[str, int] = {}
    live = at = 0
    for start, end, name in sorted(stretches):
        while at < len(changes) and changes[at][0] < start:
            live += changes[at][1]
            at += 1
        highest = live
        while at < len(changes) and changes[at][0] <= end:
            live += changes[at][1]
            highest = max(highest, live)
            at += 1
        if start >= begins:
            found[name] = max(found.get(name, 0), highest)
    return found
