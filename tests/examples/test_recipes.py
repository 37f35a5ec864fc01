"""Public recipes: each is a row that was released, gives an estimate, and stands beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from planner.estimate import estimate
from planner.examples.recipes import beside
from planner.plan.presets import DOCUMENTS, Preset, listed, nearest, presets

ROOT = Path(__file__).parents[2]
RECIPES = [one for one in presets().values() if one.published is not None]
each = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.key)

TIMINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "nemo-rl-8b@1": ("nemorl-05-grpo-llama3-1-8b-gb200-192gb-8-on", ("91.0 s", "3,359 tokens/s")),
    "ms-swift-14b@1": ("swift-qwen25-14b-a800-8-zero-3", ("58 GB", "10.56 s")),
    "torchtune-8b-lora@1": (
        "torchtune-llama-3-1-8b-sft-lora-rtx4090-24gb",
        ("16.2 GiB", "3,083 tokens/s"),
    ),
}
"""Rows of accuracy/timings/times.json, and what is quoted of them."""
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "search-r1-3b@1": ("s01", ("2 to 3 h", "36 to 54 s")),
    "ms-swift-72b-lora@1": ("s09", ("4 × 80 GB",)),
    "llama-factory-8b@1": ("c01", ("13 GB", "nvidia-smi")),
}
"""The same of accuracy/cases/rows.json."""


def test_there_are_six_and_each_is_a_released_row() -> None:
    assert len(RECIPES) == 6
    assert {one.key for one in RECIPES} == TIMINGS.keys() | CASES.keys()


@each
def test_what_is_quoted_is_what_the_row_says(recipe: Preset) -> None:
    assert recipe.published is not None
    quoted = " ".join(said for said, _ in recipe.published.figures)
    if recipe.key in TIMINGS:
        identifier, parts = TIMINGS[recipe.key]
        rows = json.loads((ROOT / "accuracy/timings/times.json").read_text("utf-8"))
        row = next(one for one in rows if one["id"] == identifier)
        project, _, rest = row["source"].partition("@")
        commit, _, path = rest.partition(" ")
        assert recipe.published.source == f"https://github.com/{project}/blob/{commit}/{path}"
        figure, said = row["figure"], f"{row['other']} {row['figure']}"
        numbers = {f"{figure['step_seconds']}", f"{figure['tokens_per_second_per_gpu'] or 0:,.0f}"}
        assert recipe.published.read == row["read"]
        for part in parts:
            number = part.split()[0]
            assert part in quoted and (number in numbers or number in said)
    else:
        identifier, parts = CASES[recipe.key]
        rows = json.loads((ROOT / "accuracy/cases/rows.json").read_text("utf-8"))
        row = next(one for one in rows["rows"] if one["id"] == identifier)
        assert (recipe.published.source, recipe.published.read) == (row["url"], rows["read"])
        plain = re.sub(r"(?<=\d)-(?=\d)", " to ", row["outcome"]).replace(" x ", " × ")
        assert [part for part in parts if part not in quoted or part not in plain] == []


@each
def test_each_gives_an_estimate_and_what_is_published_stands_beside(recipe: Preset) -> None:
    assert recipe.published is not None
    footprint = estimate(recipe.plan)
    assert footprint.verdict.word in ("fits", "tight"), "it ran"
    assert footprint.step_seconds
    rows = beside(recipe)
    assert [said for said, _ in rows] == [said for said, _ in recipe.published.figures]
    assert rows and all(said and ours for said, ours in rows)
    if any(kind == "device" for _, kind in recipe.published.figures):
        assert any(f"{footprint.device_bytes / 2**30:.1f} GiB" in ours for _, ours in rows)
    assert recipe.published.differs.endswith(".")


def test_they_stand_between_common_ones_and_worked_examples() -> None:
    kinds = [
        2 if one.task == DOCUMENTS else 1 if one.published else 0 for one in listed("grpo-7b@1")
    ]
    assert kinds == sorted(kinds) and kinds.count(1) == 6 and kinds[0] == 0


@each
def test_what_was_published_is_of_no_other_plan(recipe: Preset) -> None:
    assert nearest(recipe.plan) == recipe
    assert nearest(recipe.plan.changed(steps=recipe.plan.steps + 1)).published is None
