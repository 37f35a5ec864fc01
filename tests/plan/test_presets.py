"""Presets: complete, judged, and never edited once released."""

import json
import re
from pathlib import Path

import pytest

from planner.estimate import estimate
from planner.launch.export import obstacles, why_not
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.frameworks import OWN
from planner.plan.presets import DEFAULT, PATH, nearest, newest, presets
from planner.plan.query import fields_of
from planner.plan.trainers import exporting

RELEASED = Path(__file__).parents[1] / "fixtures" / "presets-released.json"


def test_released_presets_are_never_edited() -> None:
    """A better choice is a new version: links that name the old one keep their meaning."""
    released = json.loads(RELEASED.read_text("utf-8"))
    today = {row["key"]: row for row in json.loads(PATH.read_text("utf-8"))}
    for key, fields in released.items():
        assert {"v": today[key]["v"], **today[key]["plan"]} == fields, key
    assert list(today)[: len(released)] == list(released)


def test_every_preset_is_held_by_the_fixture() -> None:
    assert presets().keys() == json.loads(RELEASED.read_text("utf-8")).keys()


def test_every_preset_writes_out_every_field() -> None:
    for row in json.loads(PATH.read_text("utf-8")):
        assert row["plan"].keys() == set(fields_of(row["v"])), row["key"]
        assert re.fullmatch(r"[a-z0-9.\-]+@[1-9][0-9]*", row["key"])
        assert row["title"] and row["task"] and row["description"].endswith(".")


@pytest.mark.parametrize("key", [key for key in presets() if not key.startswith("doc-")])
def test_presets_to_start_from_fit_their_cards(key: str) -> None:
    recipe = presets()[key].published is not None
    words = ("fits", "tight") if recipe else ("fits",)  # a public run ran, however tightly
    assert estimate(presets()[key].plan).verdict.word in words


def test_the_default_exports_to_every_framework_that_has_its_method() -> None:
    plan = presets()[DEFAULT].plan
    assert len(exporting(plan.method)) >= 2
    for framework in exporting(plan.method):
        if framework == OWN:  # our own program samples with the model itself, on one node
            fields = [one.field for one in obstacles(plan, framework)]
            assert fields == ["method"]
        else:
            assert why_not(plan, framework) == ()


@pytest.mark.parametrize("key", list(presets()))
def test_a_preset_for_a_framework_exports_to_it(key: str) -> None:
    plan = presets()[key].plan
    assert plan.framework == "plain" or why_not(plan, plan.framework) == ()


def test_the_documents_premises() -> None:
    """Seed document of Intuitor and PPO: 64 rows of 6K tokens, bf16, eight cards of 80 GB."""
    for key in ("doc-000-intuitor@1", "doc-000-ppo@1"):
        plan = presets()[key].plan
        assert plan.prompts_per_step * plan.responses_per_prompt == 64
        assert (plan.prompt_tokens, plan.response_tokens, plan.gpus) == (2048, 4096, 8)
        assert (plan.dtype, plan.master_dtype, plan.gradient_dtype) == ("bf16", "none", "bf16")
    rows = presets()["doc-004-activations@1"].plan
    assert (rows.micro_batch_size, rows.prompt_tokens + rows.response_tokens) == (2, 512)


def test_the_nearest_preset_differs_least() -> None:
    assert nearest(presets()["ppo-7b@1"].plan.changed(steps=7)).key == "ppo-7b@1"


def test_differences_are_in_the_plans_order() -> None:
    plan = Plan()
    changed = plan.changed(steps=3, gpus=16, entropy=True)
    assert tuple(change.field for change in differences(dict(plan), dict(changed))) == (
        "gpus",
        "entropy",
        "steps",
    )


def test_the_newest_release_of_a_name() -> None:
    names = {key.partition("@")[0] for key in presets()}
    for name in names:
        versions = [int(key.partition("@")[2]) for key in presets() if key.startswith(f"{name}@")]
        assert newest(f"{name}@1") == f"{name}@{max(versions)}"
