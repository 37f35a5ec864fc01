"""What training loads outside PyTorch's allocator, beside what two cards showed of real runs."""

from __future__ import annotations

import statistics

import pytest

from accuracy import gpu_report
from planner import catalog
from planner.catalog import device_constants
from planner.estimate import estimate
from planner.plan import Plan
from planner.units import MIB

NAME = "code of training's kernels"


def loaded(*, sharded: bool) -> list[int]:
    """Of every measured run: outside the allocator at the end, less before the first kernel."""
    found = []
    for file in gpu_report.files():
        for row in file["cases"]:
            steps = row["measured"]["steps"]
            if steps and (Plan(**row["plan"]).sharding != "none") == sharded:
                last = max(phase["outside_bytes"] for phase in steps[-1].values())
                found.append(last - row["measured"]["before"]["outside_bytes"])
    return found


@pytest.mark.parametrize(("sharded", "least"), [(False, 20), (True, 5)])
def test_it_is_what_real_runs_took(sharded: bool, least: int) -> None:
    seen = loaded(sharded=sharded)
    assert len(seen) >= least
    bounds = device_constants.training_code(catalog.gpu("h100-80gb"), sharded=sharded)
    assert bounds.centre == statistics.median(seen)
    assert max(seen) <= bounds.high + 8 * MIB


def test_older_cards_may_take_it_and_unknown_ones_do() -> None:
    a100 = device_constants.training_code(catalog.gpu("a100-80gb"), sharded=False)
    assert (a100.low, a100.centre, a100.high) == (0, 0, 240 * MIB)
    amd = device_constants.training_code(catalog.gpu("mi300x"), sharded=True)
    assert (amd.centre, amd.high) == (0, 310 * MIB)
    assert device_constants.training_code(catalog.gpu("b200-180gb"), sharded=True).centre


def test_every_phase_of_a_trainer_has_it() -> None:
    plan = Plan(model="Qwen/Qwen2.5-1.5B", method="sft", gpus=1, sharding="none", gpu="h200-141gb")
    for phase in estimate(plan).phases:
        assert [term.bytes for term in phase.terms if term.name == NAME] == [240 * MIB]
