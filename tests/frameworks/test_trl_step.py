"""TRL's own code without data against TRL for real on a CPU, as torch's allocator saw it."""

from __future__ import annotations

import pytest
import torch

from accuracy.trl_cases import CASES, LIVE
from accuracy.trl_runs import dry_peaks, real_peaks
from planner.frameworks.trl.run.seams import Head

torch.set_num_threads(1)

TOLERANCE = 1e-3
BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize(("name", "head"), LIVE.items())
def test_every_phase_peaks_where_the_allocator_says(name: str, head: Head) -> None:
    case = BY_NAME[name]
    real, dry = real_peaks(case, head), dry_peaks(case, head)
    assert list(dry) == list(real)
    apart = {phase: dry[phase] / real[phase] - 1 for phase in real}
    assert not {phase: one for phase, one in apart.items() if abs(one) > TOLERANCE}, apart
