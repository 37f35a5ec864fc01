"""How fast a processor is said to be: the work of a neighbour is no part of it."""

from __future__ import annotations

import time

import pytest
import torch

from planner.trial.ask.request import request_of
from planner.trial.ask.supervisor import environment_of
from planner.trial.run.device import best_rate, processor_flops_per_second
from trial.history.results import PLAN


def test_the_least_disturbed_probe_stands() -> None:
    # A product of 100 FLOPs: 50 of them in 10 ms, where a neighbour left 20, 5 or 49.
    quiet, busy = (50, 0.01), [(20, 0.01), (5, 0.011), (49, 0.01)]
    assert best_rate(100.0, [quiet], 1) == pytest.approx(500_000)
    assert best_rate(100.0, [*busy, quiet], 1) == best_rate(100.0, [quiet], 1)
    assert best_rate(100.0, [quiet, *busy], 4) == pytest.approx(2_000_000)


def test_time_off_the_core_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each product costs 1 ms on the core; a neighbour holds it 99 of 100 ms."""
    clock = iter(range(10**6))
    monkeypatch.setattr(time, "thread_time", lambda: next(clock) / 1000)
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock) / 10)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    # Two threads, 2 * 10³ FLOPs a product and millisecond, and two more looks at the clock.
    rate = processor_flops_per_second(torch.float32, size=10)
    assert rate == pytest.approx(2 * 2000 / 0.001, rel=0.2)


def test_the_threads_of_this_process_stay_as_they_were() -> None:
    before = torch.get_num_threads()
    assert processor_flops_per_second(torch.float32) > 0
    assert torch.get_num_threads() == before


def test_a_workers_waiting_threads_sleep_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert environment_of(request_of(PLAN))["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert environment_of(request_of(PLAN))["OMP_WAIT_POLICY"] == "ACTIVE"
