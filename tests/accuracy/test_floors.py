"""No time is shorter than its bytes or its products allow (accuracy/floors.py)."""

from __future__ import annotations

import json
import zlib
from datetime import date

import pytest

from accuracy import floors
from planner.catalog.model_catalog import model, models
from planner.timing import engine_kernels

KNOWN = [one for one in models() if one.architecture is not None]


def test_sizes_are_those_that_are_published() -> None:
    for one in KNOWN:
        of = floors.sizes(one)
        table = of.head if not one.config.get("tie_word_embeddings") else 0
        active = of.active + table + one.config.get("n_positions", 0) * of.head / (
            one.config["vocab_size"]
        )
        # Biases of gpt-oss' experts are in its dense weights here.
        assert active == pytest.approx(one.params_active, rel=0.01), one.id


def test_the_committed_table_has_every_model_and_none_below_its_floor() -> None:
    told = json.loads(floors.FILE.read_text("utf-8"))
    assert set(told["models"]) == {one.id for one in KNOWN}
    assert told["broken"] == []
    assert min(one["by_floor"] for one in told["models"].values()) >= 1


def test_no_time_of_a_sample_is_below_its_floor() -> None:
    """Every mixture and some others, other steps every week."""
    for one, step in floors.drawn(zlib.crc32(str(date.today().isocalendar()[:2]).encode()), 6):
        asked = [*floors.engine_checks(one), *floors.step_checks(one, [step])]
        broken = [check for check in asked if check.ratio < 1]
        assert asked and not broken, (one.id, broken[:3])


def test_a_mixture_that_decodes_as_one_dense_matrix_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As measured mixtures did: their active weights alone, however many experts are met."""
    monkeypatch.setattr(engine_kernels, "expert_width", lambda arch: 0.0)
    engine_kernels._curves.cache_clear()
    try:
        asked = list(floors.engine_checks(model("deepseek-ai/DeepSeek-V3")))
    finally:
        engine_kernels._curves.cache_clear()
    assert any(check.ratio < 0.9 for check in asked)
