"""The committed dry runs: of today's presets, near today's estimates, and reproducible."""

from __future__ import annotations

import json

import pytest
import torch

from planner.estimate import estimate
from planner.examples import dry_runs
from planner.examples.dry_runs import Case
from planner.examples.measure import phases

WITHIN = 2e-4
"""Largest difference of estimate and dry run, relative; docs/accuracy.md asks for 0.1 %."""


def test_every_case_has_its_dry_run_and_no_other_is_kept() -> None:
    assert list(dry_runs.measured()) == [case.key for case in dry_runs.CASES]
    assert set(dry_runs.versions()) == {"torch", "transformers", "peft"}


def test_cases_differ() -> None:
    plans = [case.plan.model_dump_json() for case in dry_runs.CASES]
    assert len(set(plans)) == len(plans)


@pytest.mark.parametrize("case", dry_runs.CASES, ids=lambda case: case.key[:60])
def test_the_estimate_is_near_the_dry_run_in_every_phase(case: Case) -> None:
    closed = {phase.name: phase.requested_bytes for phase in estimate(case.plan).phases}
    for name, found in dry_runs.measured()[case.key].phases.items():
        assert closed[name] == pytest.approx(found, rel=WITHIN), name


def test_a_small_dry_run_gives_the_committed_figure() -> None:
    torch.set_num_threads(1)
    found = phases(dry_runs.SMALL)
    assert found == dict(dry_runs.measured()[dry_runs.SMALL.key].phases)


def test_the_file_is_written_as_it_is_read() -> None:
    written = json.loads(dry_runs.PATH.read_text("utf-8"))
    for key, found in dry_runs.measured().items():
        assert found.requested_bytes == max(written["cases"][key].values())
        assert written["cases"][key][found.worst] == found.requested_bytes
