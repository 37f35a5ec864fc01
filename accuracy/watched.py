"""Peaks of a real run whose garbage no other thread collects.

torch's profiler hears the frees of the thread that it watches and of no other. A tensor in a circle
is freed by whichever thread's allocation makes Python's collector run (a progress bar's, a test
runner's), and one freed elsewhere would count as live to the end of the run.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from planner.trial.run import allocations
from planner.trial.run.allocations import Marks


def peak_bytes(run: Callable[[Marks], Any]) -> dict[str, int]:
    """As :func:`planner.trial.run.allocations.peak_bytes`; circles wait until the run collects."""
    gc.disable()
    try:
        return allocations.peak_bytes(run)
    finally:
        gc.enable()
