"""The Scaling page: a second plan over the first, the trainer's own peak, every axis."""

from __future__ import annotations

import pytest

from planner.plan.link import to_query_string, to_short_query
from planner.plan.presets import presets
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
    assert "gpus is not a whole number" in words(app).replace("\\", "")


def test_plan_b_comes_with_the_link() -> None:
    b = to_query_string(presets()[INTUITOR].plan, short=True)
    app = opened("scaling", **to_short_query(presets()["grpo-7b@1"].plan), compare=b)
    assert "B differs from A" in words(app)


def test_the_trainers_own_peak_is_a_switch_in_the_link() -> None:
    preset = presets()[INTUITOR].plan
    app = opened("scaling", **to_short_query(preset))
    drawn = app.get("vega_lite_chart")[0].proto.spec
    assert "peak memory per GPU" in drawn and "engine's pool" not in drawn
    app.toggle(key="own peak").set_value(True).run()
    assert "trainer's own peak per GPU" in app.get("vega_lite_chart")[0].proto.spec
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
    assert set(table["**Engine's pool**"]) == {"39.6 GiB"}
    assert not opened("scaling", peak="<b>x").toggle(key="own peak").value


@pytest.mark.parametrize("axis", ["micro_batch_size", "prompts_per_step", "gpus", "model"])
@pytest.mark.parametrize("quantity", ["Memory per GPU", "Step time", "Tokens per second"])
def test_every_axis_draws(axis: str, quantity: str) -> None:
    app = opened("scaling")
    app.segmented_control(key="axis").set_value(axis).run()
    app.segmented_control(key="quantity").set_value(quantity).run()
    assert not app.exception
    assert len(app.get("vega_lite_chart")) == 1


def test_a_runs_cost_is_drawn_where_it_runs_with_the_band_of_its_seconds() -> None:
    app = opened("scaling")
    app.segmented_control(key="quantity").set_value("Cost of run").run()
    assert not app.exception
    (chart,) = app.get("vega_lite_chart")
    assert "US dollars of the run" in chart.proto.spec and '"area"' in chart.proto.spec
    app.segmented_control(key="reading as").set_value("Ratio to this plan").run()
    assert not app.exception
