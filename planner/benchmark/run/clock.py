"""Seconds of a run on a device, and the samples of one case within its time. Imports torch."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from planner.background import GivenUp
from planner.benchmark.run.case import Case, Run

SAMPLE_SECONDS = 0.02
"""A sample repeats a run until it is about so long: beyond a timer's error and one launch."""
LEAST_SECONDS = 1e-9
"""What a timer that saw nothing may have missed."""
MOST_RUNS = 2000
MOST_SAMPLES = 15


class WallClock:
    """Time as the process sees it."""

    def now(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def seconds(self, case: Case, run: Run, times: int) -> float:
        """Seconds of ``times`` runs after each other, once the device has done all of them."""
        start = time.perf_counter()
        for _ in range(times):
            run()
        return time.perf_counter() - start


class DeviceClock(WallClock):
    """Time between two events in the card's stream, so that launches ahead are not waited for."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    def seconds(self, case: Case, run: Run, times: int) -> float:
        """Seconds from an event before the runs to one after them."""
        make: Any = torch.cuda.Event
        begin, end = make(enable_timing=True), make(enable_timing=True)
        torch.cuda.synchronize(self.device)
        begin.record()
        for _ in range(times):
            run()
        end.record()
        torch.cuda.synchronize(self.device)
        return float(begin.elapsed_time(end)) / 1e3


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds of one run: the median of the samples, and their ends."""

    median: float
    lowest: float
    highest: float
    count: int


def sample(
    case: Case, clock: WallClock, until: float, cancelled: Callable[[], bool] = lambda: False
) -> Samples:
    """Times a case until a moment of the clock: a warm-up first, then at least one sample.

    Raises:
        GivenUp: when ``cancelled`` says so between two samples.
    """
    run = case.make()
    clock.seconds(case, run, 1)  # kernels are chosen and loaded, memory is cached
    once = clock.seconds(case, run, 1)
    times = min(max(math.ceil(SAMPLE_SECONDS / max(once, LEAST_SECONDS)), 1), MOST_RUNS)
    found: list[float] = []
    while len(found) < MOST_SAMPLES:
        if cancelled():
            raise GivenUp
        if found and clock.now() + found[-1] * times > until:
            break
        found.append(max(clock.seconds(case, run, times) / times, LEAST_SECONDS))
    return Samples(statistics.median(found), min(found), max(found), len(found))
