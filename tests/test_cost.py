"""Money: hours × GPUs × price, and no figure where one is unknown."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from planner.cost import cost
from planner.estimate import estimate
from planner.plan import Plan
from planner.units import GIB

TODAY = dt.date(2026, 11, 20)


def test_run_costs_hours_times_gpus_times_price() -> None:
    footprint = replace(
        estimate(Plan(gpus=8, steps=900, price_per_gpu_hour=2.5)), step_seconds=40.0
    )
    found = cost(footprint, today=TODAY)
    assert found.hours_run == pytest.approx(10.0)
    assert found.usd_run == pytest.approx(200.0)
    assert found.usd_per_step == pytest.approx(200.0 / 900)
    assert found.price_source == "typed in"


def test_catalog_price_is_dated_and_grows_old() -> None:
    footprint = estimate(Plan(gpu="h100-80gb"))
    found = cost(footprint, today=TODAY)
    assert found.price_date and found.price_source and found.price_is_old
    assert found.price_low is not None and found.price_high is not None
    assert found.price_low <= (found.price_per_gpu_hour or 0) <= found.price_high
    assert not cost(footprint, today=dt.date(2026, 5, 20)).price_is_old


def test_unknown_time_or_price_gives_no_cost() -> None:
    custom = cost(estimate(Plan(gpu="custom", gpu_bytes=80 * GIB)), today=TODAY)
    assert custom.usd_run is None and custom.price_per_gpu_hour is None
    unlisted = cost(estimate(Plan(gpu="rtx-4090", model="Qwen/Qwen3-0.6B")), today=TODAY)
    assert unlisted.hours_run is not None
