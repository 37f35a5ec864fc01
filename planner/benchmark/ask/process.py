"""Benchmarks as an app sees them: start one, look how it stands, stop it. No torch.

A benchmark is a process of its own, the command ``planner benchmark``, with a folder while it
runs: who it is, how far, and what its libraries said. When it ends well its result is among the
kept ones and the folder is gone; otherwise the folder says why.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from planner.benchmark.ask.archive import BENCHMARKS
from planner.jobs import processes
from planner.jobs.folder import JobFolder
from planner.jobs.strict import shown

BUDGET_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkState:
    """How a benchmark stands that has not ended well: what it measures, or why it ended."""

    identifier: str
    running: bool
    doing: str = ""
    number: int = 0
    count: int = 0
    reason: str = ""


def start(device: str, root: Path | None = None) -> JobFolder:
    """Start a benchmark in a process of its own, which goes on without this one.

    Raises:
        OSError: when its folder cannot be written.
    """
    folder = BENCHMARKS.new(None, root)
    asked = ("--device", device, "--seconds", f"{BUDGET_SECONDS:g}")
    processes.begin([sys.executable, "-m", "planner", "benchmark", *asked], folder, root)
    return folder


def states(root: Path | None = None) -> tuple[BenchmarkState, ...]:
    """Benchmarks that run, or ended without a result; newest first."""
    return tuple(map(_state, BENCHMARKS.all(root)))


def _state(folder: JobFolder) -> BenchmarkState:
    events = folder.progress()
    if processes.running(folder):
        last = events[-1] if events else {}
        number, count = (last.get(key, 0) for key in ("number", "count"))
        return BenchmarkState(
            identifier=folder.identifier,
            running=True,
            doing=shown(str(last.get("name", "imports")), 200),
            number=number if isinstance(number, int) else 0,
            count=count if isinstance(count, int) else 0,
        )
    if folder.asked_to_stop():
        reason = "It was stopped."
    else:
        reason = f"It ended without a result: {shown(folder.last_words(), 300)}"
    return BenchmarkState(identifier=folder.identifier, running=False, reason=reason)


find = BENCHMARKS.find
"""The folder of a benchmark by its name; None when there is none."""
stop = processes.end
"""End a benchmark; it keeps nothing."""


def forget(folder: JobFolder) -> bool:
    """Delete the folder of a benchmark that is over; False when it is not."""
    return processes.forget(folder, not _state(folder).running)
