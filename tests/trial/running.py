"""Trials of tiny models for the tests: their plans, and the command that runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from accuracy.cpu_cases import Case
from planner.plan import Plan
from planner.plan.query import to_query_string
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.result import TrialResult, read_result

ROOT = Path(__file__).parents[2]
TOLERANCE = 5e-4
"""Of measured bytes, by which the dry run of the same plan may miss them."""
PATIENCE_SECONDS = 600.0
"""Only what will never come is given up: a slow machine is waited for."""


def tiny(method: str, family: str = "llama", **changes: Any) -> Plan:
    """A plan of a model of two layers (``layers``), as the comparisons with dry runs have them."""
    return Case(method, family, changes).plan


def environment(data: Path) -> dict[str, str]:
    return {**os.environ, "HEADROOM_DATA": str(data), "OMP_NUM_THREADS": "1"}


def command(
    plan: Plan, *flags: str, data: Path, launcher: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """``python -m planner trial`` with JSON."""
    python = [sys.executable, *launcher, "-m", "planner", "trial"]
    return subprocess.run(
        [*python, to_query_string(plan), "--json", *flags],
        cwd=ROOT,
        env=environment(data),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


def result_of(done: subprocess.CompletedProcess[str]) -> TrialResult:
    """The result in the command's last line."""
    assert done.stdout, done.stderr[-3000:]
    return read_result(done.stdout.splitlines()[-1])


def errors(result: TrialResult) -> dict[str, float]:
    """Predicted against measured bytes of every phase, signed and relative."""
    assert result.measured is not None and result.predicted is not None
    found = {}
    for phase in result.measured.phases:
        said = result.predicted.phase(phase.name)
        assert said is not None and said.requested_bytes and phase.requested_bytes, phase.name
        found[phase.name] = said.requested_bytes / phase.requested_bytes - 1
    return found


def until(true: Callable[[], Any]) -> Any:
    """What a function returns once that is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := true()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
    return found


def worker_of(folder: TrialFolder) -> int:
    """The worker, a fork or not: what it writes goes to the folder, as its keeper's errors do."""
    return int(until(lambda: with_open(1, str(folder.stderr.resolve()))))


def with_open(number: int, name: str) -> int | None:
    """A process in which a descriptor is this file or pipe, as ``/proc`` names it."""
    for place in Path("/proc").glob(f"[0-9]*/fd/{number}"):
        with suppress(OSError):  # others' processes, and those that have just ended
            if os.readlink(place) == name:
                return int(place.parts[2])
    return None


def called(process: int) -> str:
    """A process's command line, and what a fork says that it is."""
    place = Path(f"/proc/{process}")
    return f"{(place / 'cmdline').read_bytes()!r} {(place / 'comm').read_text()}"
