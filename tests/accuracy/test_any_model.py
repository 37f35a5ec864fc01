"""docs/models.md: every causal type of transformers, its share held, and a sample measured anew."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from accuracy import any_model
from planner.catalog import spot
from planner.cautions.warnings import BELOW
from planner.dryrun.ask.port import Port

FOUND = json.loads(any_model.FILE.read_text("utf-8"))
ROWS = FOUND["types"]
LARGEST = 0.01
"""Largest difference from a dry run that needs no explanation."""


def test_every_type_has_its_row_and_enough_have_a_footprint() -> None:
    assert tuple(row["type"] for row in ROWS) == any_model.types()
    assert FOUND["versions"]["transformers"] == spot.versions()["transformers"]
    assert any_model.share(ROWS) >= any_model.SHARE
    assert all(row.get("reason") for row in ROWS if row["by"] == "refused")


def test_estimates_are_those_of_dry_runs_or_explained() -> None:
    compared = [row for row in ROWS if "difference" in row]
    assert len(compared) >= 150
    apart = {row["type"] for row in compared if abs(row["difference"]) > LARGEST}
    assert apart == set(any_model.EXPLAINED)


def test_adapters_of_any_type_are_those_of_dry_runs() -> None:
    told = [row for row in ROWS if row["by"] != "refused"]
    assert all("adapted" in row or row["adapted_reason"] for row in told)
    compared = {row["type"]: row["adapted"] for row in told if "adapted" in row}
    assert len(compared) >= 150
    apart = {name for name, error in compared.items() if abs(error) > LARGEST}
    assert apart == set(any_model.APART_WITH_LORA)
    # A footprint without a dry run is one, too; what peft or transformers refuse says so.
    refused = [row for row in told if "does not run" in row.get("adapted_reason", "")]
    assert len(told) - len(refused) >= 0.94 * len(told)


def test_what_is_too_low_says_so_in_its_answer() -> None:
    low = {row["type"]: row["difference"] for row in ROWS if row.get("difference", 0) < -LARGEST}
    assert {name: pytest.approx(-by, abs=6e-4) for name, by in low.items()} == BELOW


def test_the_page_is_written_from_the_table() -> None:
    assert any_model.DOCS.read_text("utf-8") == any_model.page(FOUND)


def test_a_random_sample_is_answered_as_the_table_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADROOM_CACHE", str(tmp_path))
    quick = [row for row in ROWS if row["by"] == "spot" and row["seconds"] < 3]
    sample = random.SystemRandom().sample(quick, 2)
    port = Port()
    try:
        for row in sample:
            found = any_model.answered(row["type"], port)
            assert found["by"] == "spot", found
            assert found["peak_bytes"] == row["peak_bytes"], row["type"]
    finally:
        port.close()
