from __future__ import annotations

import re

from planner.catalog import device_constants
from planner.catalog.device_constants import Interval
from planner.units import MIB

ALL = {name: value for name, value in vars(device_constants).items() if isinstance(value, Interval)}


def test_each_constant_is_an_interval_with_source_and_date() -> None:
    assert {"CUDA_CONTEXT", "NCCL_FIRST"} <= ALL.keys()
    for name, interval in ALL.items():
        assert 0 <= interval.low_bytes <= interval.high_bytes, name
        assert interval.source and re.fullmatch(r"\d{4}-\d{2}-\d{2}", interval.date), name
        for seen in interval.observations:
            assert seen.source and seen.what
            assert interval.low_bytes <= seen.size_bytes <= interval.high_bytes


def test_the_context_covers_what_an_h100_was_seen_to_hold() -> None:
    """GRADE's message: 79.23 in use, 77.84 allocated, 921.65 MiB reserved but unallocated."""
    seen_gib = 79.23 - 77.84 - 921.65 / 1024
    assert device_constants.CUDA_CONTEXT.low_bytes < seen_gib * 1024 * MIB
    assert device_constants.CUDA_CONTEXT.high_bytes > seen_gib * 1024 * MIB
