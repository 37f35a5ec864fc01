"""The Compare page: pins come and go, a link and a file bring them, hostile names stay words."""

from __future__ import annotations

import json
import re

import pytest
from streamlit.testing.v1 import AppTest

from planner.plan.pin import MOST, Pinned, from_pin, to_file, to_pin
from planner.plan.presets import presets
from planner.plan.query import to_query_string, to_short_query
from ui.opened_pages import APP, field, opened, words

GRPO = presets()["grpo-7b@1"].plan
WIDE = GRPO.changed(gpus=16)
BAD = "<b>[x](http://evil.example)</b>"


def linked(*pins: str, page: str = "compare") -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600)
    for key, value in to_short_query(GRPO).items():
        app.query_params[key] = value
    app.query_params["pin"] = [*pins]
    app.run()
    if page != "plan":
        app.switch_page(f"pages/{page}.py").run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def pins_in(app: AppTest) -> list[str]:
    found = app.query_params.get("pin", [])
    return [found] if isinstance(found, str) else list(found)


def table(app: AppTest, first: str) -> dict[str, list[str]]:
    """The table whose first column has this name, by row."""
    (frame,) = [
        one.value
        for one in app.dataframe
        if one.value.columns[0] == first and len({"Peak", "Step"} & {*one.value.columns}) == 0
    ]
    return {row[0]: [*row[1:]] for row in frame.itertuples(index=False)}


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def test_a_plan_is_pinned_on_the_plan_page_and_compared_with_what_becomes_of_it() -> None:
    app = opened("plan")
    press(app, "pin-plan")
    assert app.button(key="pin-plan").disabled and app.button(key="pin-plan").label.startswith(
        "Pinned"
    )
    assert [from_pin(one) for one in pins_in(app)] == [Pinned(GRPO, "Plan A")]
    field(app, "gpus").set_value(16).run()
    app.switch_page("pages/compare.py").run()
    assert not app.exception
    assert table(app, "Setting") == {"Number of GPUs": ["8", "16"]}
    assert app.success[0].value.startswith("**Both plans fit; fastest\\: This plan")
    figures = table(app, "Figure")
    assert figures["GPUs"] == ["8 × H100 80GB SXM5", "16 × H100 80GB SXM5"]
    assert "$" in figures["Cost of run"][0] and "(" in figures["Step time"][1]
    assert len(app.get("vega_lite_chart")) == 1


def test_pins_come_with_a_link_and_stay_on_every_page() -> None:
    wide = to_pin(Pinned(WIDE, "wide"))
    for page in ("plan", "scaling", "compare", "launch"):
        app = linked(wide, page=page)
        assert pins_in(app) == [wide], page
        assert not [one for one in app.button if one.key == "dismiss-reading"]
    assert [one.value for one in app.code][-1:] != [""]


def test_a_cell_has_a_methods_name_and_no_more() -> None:
    app = linked(to_pin(Pinned(presets()["ppo-7b@1"].plan, "ppo")))
    assert table(app, "Setting")["Method"] == ["PPO", "GRPO"]


def test_a_plan_that_only_just_fits_is_no_good_news() -> None:
    app = linked(to_pin(Pinned(GRPO.changed(response_tokens=24576), "long")))
    assert not app.success and "Both plans fit, long tightly" in app.warning[0].value


def test_what_is_pasted_and_is_no_link_is_said_to_be_none() -> None:
    app = opened("compare")
    app.text_input(key="pasted pin").set_value("hello").run()
    assert "hello is not a link to a plan" in words(app) and not pins_in(app)


def test_the_link_to_share_has_the_pins() -> None:
    app = linked(to_pin(Pinned(WIDE, "wide")), page="plan")
    assert "pin=9~grpo-7b%401~name.wide~gpus.16" in app.code[-1].value


def test_broken_pins_are_named_and_the_others_are_kept() -> None:
    app = linked("5~grpo-7b@1~gpus.seven", to_pin(Pinned(WIDE, "wide")), "<script>")
    said = words(app).replace("\\", "")
    assert "2 parts of this link could not be used" in said
    assert "pin 1 cannot be used: gpus is not a whole number" in said
    assert "pin 3 does not begin with a version and a preset" in said
    assert [from_pin(one).name for one in pins_in(app)] == ["wide"]
    assert table(app, "Setting") == {"Number of GPUs": ["16", "8"]}


def test_a_pin_is_opened_renamed_and_removed() -> None:
    app = linked(to_pin(Pinned(WIDE, "wide")))
    press(app, "open:0")
    assert field(app, "gpus").value == 16
    assert "Your current plan" in words(app)
    (name,) = [one for one in app.text_input if one.key and one.key.startswith("pin-name:")]
    name.set_value("  twice as many  ").run()
    assert [from_pin(one) for one in pins_in(app)] == [Pinned(WIDE, "twice as many")]
    press(app, "remove:0")
    assert pins_in(app) == [] and "Pin this plan, then change it" in words(app)


@pytest.mark.parametrize("name", [BAD, "Figure", "Setting", "Peak", "Plan A", "a.b[0]", "$x$"])
def test_a_name_is_words_and_nothing_else(name: str) -> None:
    app = linked(to_pin(Pinned(WIDE, name)), to_pin(Pinned(GRPO.changed(gpus=32), name)))
    assert len([*table(app, "Setting").values()][0]) == 3
    shown = [one.value for kind in (app.markdown, app.caption, app.success) for one in kind]
    labels = [one.label for kind in (app.selectbox, app.text_input, app.button) for one in kind]
    assert not [one for one in (*shown, *labels) if re.search(r"(?<!\\)(\]\(|\$x)", one)]


def test_a_link_is_pasted_or_explained() -> None:
    app = opened("compare")
    app.text_input(key="pasted pin").set_value(f"https://x/?{to_query_string(WIDE)}").run()
    assert [from_pin(one).plan for one in pins_in(app)] == [WIDE]
    app.text_input(key="pasted pin").set_value("gpus=none").run()
    assert "“Number of GPUs” is not a whole number" in words(app)
    assert len(pins_in(app)) == 1


def test_a_file_brings_plans_and_says_what_it_could_not_take() -> None:
    app = opened("compare")
    several = [Pinned(GRPO.changed(gpus=8 * n), f"x{n}") for n in (2, 4)]
    app.file_uploader(key="pins file").upload("p.json", to_file(several).encode()).run()
    assert not app.exception
    assert [from_pin(one) for one in pins_in(app)] == several
    rows = [{"name": "ok", "plan": GRPO.changed(gpus=64).model_dump()}, {"plan": {"gpus": "x"}}]
    content = json.dumps({"v": 5, "plans": rows}).encode()
    app.file_uploader(key="pins file").upload("q.json", content).run()
    said = words(app).replace("\\", "")
    assert "The plan file: plan 2 cannot be used: “Number of GPUs” is not a whole number" in said
    assert [from_pin(one).name for one in pins_in(app)] == ["x2", "x4", "ok"]


def test_at_most_four_plans_are_kept() -> None:
    pins = [to_pin(Pinned(GRPO.changed(gpus=8 * 2**n), f"x{n}")) for n in range(1, MOST + 1)]
    app = linked(*pins)
    assert app.button(key="pin-plan").disabled
    assert len([*table(app, "Setting").values()][0]) == MOST
    app.text_input(key="pasted pin").set_value(to_query_string(GRPO.changed(gpus=4))).run()
    assert "At most 4 plans can be compared" in words(app) and pins_in(app) == pins


def test_plans_too_long_for_a_link_are_kept_beside_it_and_the_page_says_so() -> None:
    bins = "_".join(f"{1000 + 7 * n}~{90000000001 + n * n * n}" for n in range(60))
    long = [
        GRPO.changed(length_distribution=f"1~hist_{bins.replace('90000000001', f'9000000000{n}')}")
        for n in range(4)
    ]
    app = opened("compare")
    content = to_file([Pinned(one, f"long {n}") for n, one in enumerate(long)]).encode()
    app.file_uploader(key="pins file").upload("p.json", content).run()
    assert not app.exception
    assert "too long for a link" in words(app) and pins_in(app) == []
    assert len([*table(app, "Setting").values()][0]) == 4
    press(app, "remove:3")
    press(app, "remove:2")
    assert len(pins_in(app)) == 2 and "too long for a link" not in words(app)


def test_which_differences_matter_is_told_of_the_chosen_pair() -> None:
    app = linked(to_pin(Pinned(WIDE, "wide")), to_pin(Pinned(GRPO.changed(entropy=True), "odd")))
    (effects,) = [one.value for one in app.dataframe if "Peak" in one.value.columns]
    assert [*effects.columns[:3]] == ["Setting", "wide", "This plan"]
    assert list(effects["Setting"]) == ["Number of GPUs"]
    app.selectbox(key="compared-with").set_value("odd").run()
    (effects,) = [one.value for one in app.dataframe if "Peak" in one.value.columns]
    assert [*effects.columns[:3]] == ["Setting", "wide", "odd"]
    assert effects["Peak"][0].startswith("+") and effects["Cost of run"][0].startswith("−")
