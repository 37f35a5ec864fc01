"""The Scaling page: a second plan over the first, the trainer's own peak, every axis."""

from __future__ import annotations

import json

import pytest

from planner.plan.presets import presets
from planner.plan.query import to_query_string, to_short_query
from ui.opened_pages import field, opened, words

INTUITOR = "intuitor-1.5b@1"


def test_a_second_plan_is_pinned_and_overlaid() -> None:
    app = opened("scaling")
    app.button(key="pin").click().run()
    field(app, "gpus").set_value(16).run()
    assert "B differs from A" in words(app)
    assert app.session_state["compare"]
    app.segmented_control(key="reading as").set_value("Ratio B ÷ A").run()
    assert not app.exception


def test_a_link_pasted_as_plan_b_is_read_or_explained() -> None:
    app = opened("scaling")
    link = "http://elsewhere/?" + to_query_string(presets()["ppo-7b@1"].plan)
    app.text_input(key="pasted b").set_value(link).run()
    assert "B differs from A" in words(app)
    app.text_input(key="pasted b").set_value("gpus=none").run()
    assert "“Number of GPUs” is not a whole number" in words(app).replace("\\", "")


def test_plan_b_comes_with_the_link() -> None:
    b = to_query_string(presets()[INTUITOR].plan, short=True)
    app = opened("scaling", **to_short_query(presets()["grpo-7b@1"].plan), compare=b)
    assert "B differs from A" in words(app)


def test_the_trainers_own_peak_is_a_switch_in_the_link() -> None:
    preset = presets()[INTUITOR].plan
    app = opened("scaling", **to_short_query(preset))
    drawn = app.get("vega_lite_chart")[0].proto.spec
    assert "without vLLM's reservation" in drawn and "Training tensors per GPU" not in drawn
    app.toggle(key="own peak").set_value(True).run()
    assert "Training tensors per GPU" in app.get("vega_lite_chart")[0].proto.spec
    assert app.query_params["peak"] == "trainer"
    app.toggle(key="own peak").set_value(False).run()
    assert "peak" not in app.query_params
    for page in ("scaling", "examples"):
        app = opened(page, **to_short_query(preset), peak="trainer")
        if page == "examples":
            app.session_state["open:depth-000"] = True  # its table lies folded
            app.run()
        assert app.toggle(key="own peak").value
        assert not app.warning, "the key is no field of a plan"
    (table,) = [one.value for one in app.table if "**Ratio, planned**" in one.value.columns]
    assert list(table["**Ratio, planned**"]) == ["0.86×", "0.91×", "0.94×", "0.95×"]
    assert set(table["**vLLM reserves**"]) == {"39.6 GiB"}
    assert not opened("scaling", peak="<b>x").toggle(key="own peak").value


@pytest.mark.parametrize("axis", ["micro_batch_size", "prompts_per_step", "gpus", "gpu", "model"])
def test_every_axis_draws_memory_time_and_dollars_under_one_pointer(axis: str) -> None:
    app = opened("scaling")
    app.segmented_control(key="axis").set_value(axis).run()
    assert not app.exception
    (chart,) = app.get("vega_lite_chart")
    spec = json.loads(chart.proto.spec)
    titles = sorted(panel["title"]["text"].partition(",")[0] for panel in spec["vconcat"])
    assert titles == ["Dollars per run", "Memory per GPU", "Seconds per step"]
    assert len(spec["params"]) == 1
    bands = [one for panel in spec["vconcat"] for one in panel["layer"] if "y2" in one["encoding"]]
    assert len(bands) == 2, "seconds and dollars have intervals"
    shown = app.dataframe(key=f"curve-rows {axis}").value
    assert len(shown) and {"Step, s", "Run, $", "$ at least", "Verdict"} <= set(shown)
    if axis == "gpu":
        runs = shown[shown["Verdict"] != "out of memory"]["Run, $"].dropna()
        assert list(runs) == sorted(runs) and len(runs) > 5


def test_limits_holes_and_the_knee_are_said_in_words() -> None:
    app = opened("scaling")
    app.segmented_control(key="axis").set_value("gpus").run()
    said = words(app)
    assert "Needs at least **4 GPUs**" in said and "GPU full in rollout up to 2" in said
    assert "7 of 64 values are valid plans" in said and "For example, 3 GPUs is not" in said
    assert "All valid values are drawn. Rules that the other values break: " in said
    assert "must fill whole nodes (49)" in said
    assert "GPUs that train; a plan of its own is filled up (8)" in said
    assert "**Knee: 8 GPUs**" in said and "GPUs₀ · seconds₀ ÷ (GPUs · seconds)" in said
    spec = app.get("vega_lite_chart")[0].proto.spec
    assert "ideal scaling" in str(app.get("vega_lite_chart")[0].proto) and "near" in spec


def test_a_row_opens_as_a_plan() -> None:
    app = opened("scaling")
    app.segmented_control(key="axis").set_value("gpus").run()
    assert app.button(key="apply row").disabled
    app.session_state["curve-rows gpus"] = {"selection": {"rows": [5], "columns": [], "cells": []}}
    app.run()
    assert not app.exception
    app.button(key="apply row").click().run()
    assert field(app, "gpus").value == 32


def test_seconds_and_dollars_are_of_plans_that_run() -> None:
    app = opened("scaling", v="1", preset="doc-000-ppo@1")
    app.segmented_control(key="axis").set_value("gpus").run()
    assert "Runs at no value from 1 to 8 GPUs" in words(app)
    assert "No plan in this range runs and has a known step time" in words(app)
    spec = json.loads(app.get("vega_lite_chart")[0].proto.spec)
    assert len(spec["vconcat"]) == 1
