"""What another thread's collector frees is still taken off a real run's bytes."""

from __future__ import annotations

import gc
import threading

import torch

from accuracy.watched import peak_bytes
from planner.trial.run import allocations
from planner.trial.run.allocations import Marks

SIZE = 1_000_000


def run(marks: Marks) -> None:
    circle: list[object] = [torch.empty(SIZE, dtype=torch.uint8)]
    circle.append(circle)
    del circle
    # Enough objects for Python's collector to look at every generation, in another thread.
    other = threading.Thread(target=lambda: [[] for _ in range(1_000_000)])
    other.start()
    other.join()
    gc.collect()
    with marks.last_step():
        marks.phase("a", True)
        torch.empty(1_000, dtype=torch.uint8)
        marks.phase("a", False)


def test_a_circle_is_collected_where_frees_are_heard() -> None:
    gc.collect()
    assert peak_bytes(run) == {"a": 1_000}
    assert gc.isenabled()
    # Without it, the megabyte would be live for good.
    assert allocations.peak_bytes(run) == {"a": SIZE + 1_000}
