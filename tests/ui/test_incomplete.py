"""A link that asks for what cannot be planned: the rest is shown, never as the answer."""

from __future__ import annotations

import json

import pytest

from planner import catalog
from planner.__main__ import main
from planner.plan.fields import MOVES, NOT_KNOWN, NOT_MODELLED
from planner.plan.link import from_query, from_query_string
from ui.opened_pages import field, link_of, opened, words

LEFT_OUT = [
    ("tensor_parallel", "2", "Tensor parallel 2", "collectives would add time"),
    ("turns", "8", "Turns 8", "longer than one response"),
    ("sharding", "megatron", "Sharding megatron", "of a GPU would be of another size"),
    ("model", "nobody/knows-it", "Model nobody/knows-it", "every figure would be another"),
    ("gpus", "many", "Number of GPUs many", NOT_KNOWN),
]


@pytest.mark.parametrize(("name", "text", "said", "moves"), LEFT_OUT)
def test_the_rest_of_a_link_is_never_green(name: str, text: str, said: str, moves: str) -> None:
    app = opened(v="8", preset="grpo-7b@1", **{name: text})
    assert not app.exception and not app.success
    [headline] = [one.value for one in app.warning if "Incomplete" in one.value]
    assert headline.replace("\\", "") == f"**Incomplete. {said} is left out.**"
    page = words(app).replace("\\", "")
    assert f"{said} is left out: " in page and moves in page
    assert page.index(moves) < page.index("GPU: fits, ")
    figures = {one.label: one for one in app.metric}
    assert figures["Cost of run"].value == figures["Step time"].value == "—"
    assert figures["Cost of run"].delta == "incomplete"
    assert "Fits. Peak" not in page


def test_a_page_that_is_loaded_again_says_it_again_until_someone_goes_on_without_it() -> None:
    app = opened(v="8", preset="grpo-7b@1", tensor_parallel="2", response_tokens="777")
    field(app, "prompts_per_step").set_value(32).run()
    assert not app.success and link_of(app)["tensor_parallel"] == "2"
    again = opened(**link_of(app))
    assert not again.success and "Incomplete. Tensor parallel 2" in again.warning[0].value
    assert field(again, "response_tokens").value == 777
    dismiss = again.button(key="dismiss-reading")
    assert dismiss.label == "Plan without it"
    dismiss.click().run()
    assert again.success[0].value.startswith("**Fits. Peak ")
    assert link_of(again)["tensor_parallel"] == "1"


@pytest.mark.parametrize("page", ["scaling", "launch", "compare", "trial", "recommend"])
def test_other_pages_do_not_call_it_fitting(page: str) -> None:
    app = opened(page, v="8", preset="grpo-7b@1", turns="8")
    assert not app.exception
    assert not [one for one in app.success if "Fits" in one.value or "fits" in one.value]
    assert "check_circle:" not in words(app) and "(fits)" not in words(app)


def test_a_part_that_is_chosen_anew_is_left_out_no_longer() -> None:
    app = opened(v="8", preset="grpo-7b@1", gpus="many")
    assert not app.success
    field(app, "gpus").set_value(16).run()
    assert app.success and link_of(app)["gpus"] == "16"


def test_what_is_no_part_of_a_plan_leaves_nothing_out() -> None:
    assert opened(v="8", preset="grpo-7b@1", utm_source="mail").success
    link = "v=8&preset=grpo-7b@1&calibration=x&utm_source=mail&gpus=8&gpus=16"
    assert not from_query_string(link).left_out
    near = from_query({"v": "8", "preset": "grpo-7b@1", "tensor_paralel": "2"})
    assert near.left_out == (("tensor_paralel", "2"),)
    assert from_query({"v": "8", "preset": "grpo-9b@1"}).left_out == (("preset", "grpo-9b@1"),)


def test_every_field_that_is_not_modelled_says_which_way_it_moves_the_figures() -> None:
    assert {rule.field for rule in NOT_MODELLED} <= MOVES.keys()


def test_a_model_with_a_vision_part_is_incomplete_on_page_and_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    encoded = vision()
    app = opened(v="8", preset="sft-8b@1", config=encoded)
    assert not app.exception and not app.success
    assert any("Incomplete. All of gemma3 but" in one.value for one in app.warning)
    asked = f"v=8&preset=sft-8b@1&config={encoded}"
    assert main(["estimate", asked]) == 0
    text = capsys.readouterr().out
    moved = "All of gemma3 but its language model is left out: weights, "
    assert text.index(moved) < text.index("Incomplete. All of gemma3") and "$" not in text
    assert main(["estimate", asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"]["incomplete"] and told["verdict"]["word"] == "fits"
    assert told["assumptions"][0].startswith(moved) and told["cost"]["usd_run"] is None
    assert not told["throughput"]


def test_the_command_line_goes_on_refusing_what_is_not_modelled(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["estimate", "v=8&preset=grpo-7b@1&tensor_parallel=2"]) == 2
    assert "tensor_parallel above 1 is not modelled yet" in capsys.readouterr().err


def vision() -> str:
    """A config.json of a model with a vision part, as a link has it."""
    row = catalog.model("google/gemma-3-4b-it")
    config = {"model_type": "gemma3", "text_config": dict(row.config), "vision_config": {}}
    return catalog.encode_config(config)


@pytest.mark.parametrize("link", [{"turns": "8"}, {"config": vision()}], ids=["turns", "vision"])
def test_no_phase_of_the_rest_is_called_good(link: dict[str, str]) -> None:
    app = opened(v="8", preset="grpo-7b@1", **link)
    good = json.dumps("✓").strip(chr(34))
    assert good in opened(v="8", preset="grpo-7b@1").get("vega_lite_chart")[0].proto.spec
    assert good not in app.get("vega_lite_chart")[0].proto.spec
    app.session_state["phases-view"] = ":material/table: Table"
    app.run()
    [table] = [one.value for one in app.dataframe if "Share of GPU" in one.value.columns]
    assert set(table["Verdict"]) == {"incomplete"}


def test_a_short_link_asks_for_what_is_left_out_too() -> None:
    app = opened(v="8", preset="grpo-7b@1", turns="8", tensor_parallel="2")
    link = app.code[-1].value
    assert len(link) < 200 and "turns=8" in link and "tensor_parallel=2" in link


def test_no_row_of_an_axis_fits_where_a_part_is_left_out() -> None:
    app = opened("scaling", v="8", preset="sft-8b@1", config=vision())
    words_of = [set(one.value["Verdict"]) for one in app.dataframe if "Verdict" in one.value]
    assert words_of and not [said for said in words_of if said & {"fits", "tight"}]
    assert any("incomplete" in said for said in words_of)


def test_a_model_of_the_catalog_says_that_its_vision_part_is_not_planned() -> None:
    part = "Qwen/Qwen3.5-4B is planned as its language model: weights, activations"
    page = words(opened(v="8", preset="grpo-7b@1", model="Qwen/Qwen3.5-4B"))
    assert part in page.replace("\\", "")
    assert "as its language model" not in words(opened())
