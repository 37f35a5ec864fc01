"""What another thread's collector would free is taken off a real run's bytes.

Counted is in a process of its own. PyTorch's profiler keeps the size of what it saw
allocated until it hears of its free. What was freed unheard (between windows, or in another thread)
leaves a size behind, and whatever is put at that address later is freed with those bytes: what
other tests of a process did would change the figures here.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from planner.trial.run import allocations
from planner.trial.run.allocations import Allocations, Marks, peak_bytes

SIZE = 1_000_000


def circle() -> None:
    """A tensor that only the collector frees."""
    held: list[object] = [torch.empty(SIZE, dtype=torch.uint8)]
    held.append(held)


def elsewhere() -> None:
    """Enough objects for Python's collector to look at every generation, in another thread."""
    other = threading.Thread(target=lambda: [[] for _ in range(1_000_000)])
    other.start()
    other.join()


def run(marks: Marks) -> None:
    circle()
    elsewhere()
    gc.collect()
    with marks.last_step():
        marks.phase("a", True)
        torch.empty(1_000, dtype=torch.uint8)
        marks.phase("a", False)


def collected_where_frees_are_heard() -> None:
    assert peak_bytes(run) == {"a": 1_000}
    assert gc.isenabled()


def unheard() -> None:
    """Without it, the megabyte would be live for good."""
    allocations._heard = nullcontext  # type: ignore[assignment]
    assert peak_bytes(run) == {"a": SIZE + 1_000}


def gone_before_the_next_window() -> None:
    counted = Allocations()
    with counted.window("build"):
        circle()
        elsewhere()
    assert counted.live_bytes == 0
    with counted.window("step"):
        elsewhere()
    assert counted.live_bytes == 0


def of_what_was_there_before_no_free_is_counted() -> None:
    circle()
    counted = Allocations()
    with counted.window("step"):
        elsewhere()
    assert counted.live_bytes == 0


def test_circles_are_collected_where_frees_are_heard() -> None:
    """A trial's build and steps are windows: none begins with what the one before left lying.

    The last check leaves a size behind, as it shows.
    """
    checks = (
        collected_where_frees_are_heard,
        gone_before_the_next_window,
        of_what_was_there_before_no_free_is_counted,
        unheard,
    )
    code = f"import runpy; here = runpy.run_path({__file__!r})\n" + "\n".join(
        f"here[{check.__name__!r}]()" for check in checks
    )
    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_the_collector_comes_back_after_an_error() -> None:
    with pytest.raises(KeyError), Allocations().window(""):
        raise KeyError
    assert gc.isenabled()
