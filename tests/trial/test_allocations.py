"""What another thread's collector would free is taken off a real run's bytes."""

from __future__ import annotations

import gc
import threading
from contextlib import nullcontext

import pytest
import torch

from planner.trial.run import allocations
from planner.trial.run.allocations import Allocations, Marks, peak_bytes

SIZE = 1_000_000


@pytest.fixture(autouse=True)
def nothing_of_other_tests() -> None:
    """What earlier tests left: a finalizer frees one round, and what it held goes in the next."""
    for _ in range(8):
        if not gc.collect():
            return


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


def test_a_circle_is_collected_where_frees_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    assert peak_bytes(run) == {"a": 1_000}
    assert gc.isenabled()
    # Without it, the megabyte would be live for good.
    monkeypatch.setattr(allocations, "_heard", nullcontext)
    assert peak_bytes(run) == {"a": SIZE + 1_000}


def test_circles_of_a_window_are_gone_before_the_next() -> None:
    """A trial's build and steps are windows: none begins with what the one before left lying."""
    counted = Allocations()
    with counted.window("build"):
        circle()
        elsewhere()
    assert counted.live_bytes == 0
    circle()
    with counted.window("step"):
        elsewhere()  # of what was there before the window no free is counted
    assert counted.live_bytes == 0


def test_the_collector_comes_back_after_an_error() -> None:
    with pytest.raises(KeyError), Allocations().window(""):
        raise KeyError
    assert gc.isenabled()
