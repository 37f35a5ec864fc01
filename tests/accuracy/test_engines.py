"""Start-up logs of vLLM engines beside the terms of a plan with the same engine."""

from __future__ import annotations

import numpy as np

from accuracy.engines.compare import Compared, compared, reason
from accuracy.engines.report import text
from accuracy.engines.rows import rows


def errors(part: str) -> np.ndarray:
    return np.array([item.error(part) for item in compared()])


def test_every_log_has_a_plan_or_one_reason() -> None:
    assert len(rows()) == len({row.id for row in rows()}) == 42
    assert len(compared()) == sum(not reason(row) for row in rows()) == 23


def test_weights_and_working_set_of_text_models() -> None:
    """Gemma-3 has a vision tower beside; of DeepSeek a few weights stay in fp32."""
    text_only = [item for item in compared() if "gemma-3" not in item.row.model]
    assert all(abs(item.error("weights_gib")) < 0.01 for item in text_only)
    assert all(abs(item.error("activation_peak_gib")) < 0.09 for item in text_only)
    assert abs(np.median(errors("activation_peak_gib"))) < 0.01


def test_the_pool_is_short_of_the_graphs_that_this_version_captures_beside_its_share() -> None:
    """A cache of 3 GiB on a full card shows every tenth: the others lie within 3 % with them."""
    assert -0.02 < np.median(errors("kv_gib")) < 0
    assert abs(np.median([item.pool_beside_graphs for item in compared()])) < 0.005
    large = [item for item in compared() if item.row.kv_gib > 4]
    assert all(abs(item.pool_beside_graphs) < 0.04 for item in large)


def test_bounds_hold_the_logs_that_they_were_read_off() -> None:
    assert all(item.within(part) for item in compared() for part in item.bounds)


def test_an_engine_outside_its_bounds_is_told() -> None:
    item = compared()[0]
    low, _ = item.bounds["graphs_gib"]
    outside = {**item.bounds, "graphs_gib": (low, item.row.graphs_gib - 0.01)}
    moved = Compared(row=item.row, predicted=item.predicted, bounds=outside)
    assert not moved.within("graphs_gib")


def test_the_section_says_what_is_no_check() -> None:
    assert "are no check" in " ".join(text().split())
