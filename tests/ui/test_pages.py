"""Every page in process: first visits, edits, links, refusals, presets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from huggingface_hub import constants
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

from planner.catalog import gpus
from planner.estimate import estimate
from planner.plan import FIELDS
from planner.plan.link import from_query
from planner.plan.migrations import VERSION
from planner.plan.presets import presets
from planner.plan.query import to_query
from planner.ui.state import draft as drafts
from planner.ui.state import session, typed
from planner.units import read_seconds_between
from ui.opened_pages import APP, PAGES, field, has, link_of, opened, unfold, words

INTUITOR = "intuitor-1.5b@1"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("preset", [*presets()])
def test_every_page_shows_every_preset(page: str, preset: str) -> None:
    app = opened(page, v="1", preset=preset)
    assert app.selectbox(key="preset").value == preset
    assert not [error.value for error in app.error if "not possible" in error.value]


def test_the_first_visit_opens_a_preset_with_a_verdict_and_figures() -> None:
    app = opened()
    assert "Fits. Peak " in app.success[0].value and "8 × H100" in words(app)
    assert [metric.label for metric in app.metric] == [
        "GPU peak",
        "Worst phase",
        "Step time",
        "Cost of run",
        "Host RAM",
    ]
    assert len(app.get("vega_lite_chart")) == 1


def test_the_link_on_the_page_is_complete() -> None:
    assert set(FIELDS) | {"v", "preset", "set"} == set(link_of(opened()))


@pytest.mark.parametrize("after", ["edited", "set_draft"])
def test_an_edit_survives_a_script_that_is_given_up_while_it_takes_it(
    after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Streamlit gives one up when the next edit arrives."""
    app, given_up = opened(), []
    where = drafts if after == "edited" else session
    whole = getattr(where, after)

    def stopping(*given: object) -> object:
        made = whole(*given)
        if not given_up:
            given_up.append(after)
            raise StopException
        return made

    monkeypatch.setattr(where, after, stopping)
    shown = app._tree
    field(app, "gpus").set_value(16).run()
    assert given_up
    app._tree = shown  # a browser still has it
    field(app, "response_tokens").set_value(3000).run()
    link = link_of(app)
    assert (link["gpus"], link["response_tokens"]) == ("16", "3000")


def test_a_request_from_before_a_plan_was_opened_takes_nothing_back() -> None:
    """As a poll sends one, or the next press: the browser has the other inputs' old values yet."""
    app = opened()
    app.selectbox(key="preset").set_value(INTUITOR)
    request = app._tree.get_widget_states()
    app.run()
    chosen = link_of(app)
    assert chosen["model"] != link_of(opened())["model"]
    app._run(request)
    assert link_of(app) == chosen
    (box,) = [one for one in request.widgets if one.id.endswith("field:prompt_tokens")]
    box.double_value = 777
    app._run(request)
    link = link_of(app)
    assert link == {**chosen, "prompt_tokens": "777", "set": link["set"]}, "what is typed counts"


def test_ten_inputs_and_folded_groups() -> None:
    app = opened()
    first = ("model", "method", "framework", "gpu", "gpus", "prompts_per_step", "prompt_tokens")
    for name in (*first, "response_tokens"):
        assert field(app, name).help
    assert field(app, "responses_per_prompt") and field(app, "finetuning")
    assert not has(app, "micro_batch_size")
    assert field(unfold(app, "batch"), "micro_batch_size").value > 0


def test_every_input_has_a_label_and_a_help() -> None:
    app = opened(v="1", preset="ppo-7b@1")
    for group in ("batch", "precision", "savers", "roles", "rollout", "hardware", "money"):
        app.session_state[f"open:group:{group}"] = True
    app.run()
    assert not app.exception
    inputs = [*app.number_input, *app.selectbox, *app.toggle, *app.text_input]
    assert len(inputs) > 40
    bare = [widget.key for widget in inputs if not widget.label or not widget.help]
    assert bare == [typed.EDITION], "which nobody sees"


REAL_FIELDS = {
    "precision": ("base_dtype", "optimizer_step", "lora_dropout", "autocast"),
    "savers": ("chunk_tokens",),
    "rollout": ("temperature",),
}


def test_fields_of_real_runs_are_where_people_look_and_where_they_have_an_effect() -> None:
    lora = {"v": "4", "preset": "grpo-7b@1", "finetuning": "lora", "reference": "frozen-adapter"}
    app = opened(**lora, gpus="1", sharding="none", logits="chunked")
    for group, names in REAL_FIELDS.items():
        app = unfold(app, group)
        assert not app.exception
        assert [name for name in names if not has(app, name)] == []
    dropout = field(app, "lora_dropout")
    assert (dropout.min, dropout.max) == (0.0, 0.99)
    dropout.set_value(0.1).run()
    assert link_of(app)["lora_dropout"] == "0.1"
    whole = opened()
    for group in REAL_FIELDS:
        whole = unfold(whole, group)
    absent = ("base_dtype", "lora_dropout", "autocast", "chunk_tokens")
    assert [name for name in absent if has(whole, name)] == []
    assert has(whole, "optimizer_step") and has(whole, "temperature")


def test_a_methods_own_field_is_beside_the_others_and_in_the_link() -> None:
    app = opened(v="2", preset="grpo-7b@1", method="reinforce++")
    assert not app.error and field(app, "method").value == "reinforce++"
    assert "REINFORCE++ · advantages whitened over the batch" in field(app, "method").options
    assert field(unfold(app, "reinforce++"), "reinforce_baseline").value == "none"
    peak = app.metric[0].value
    field(app, "reinforce_baseline").set_value("group").run()
    assert link_of(app)["reinforce_baseline"] == "group" and link_of(app)["v"] == str(VERSION)
    assert app.metric[0].value == peak
    field(app, "method").set_value("rloo").run()
    assert "Only REINFORCE++ has this setting." in words(app).replace("\\", "")
    field(app, "reinforce_baseline").set_value("none").run()
    assert not app.exception and not has(app, "reinforce_baseline")
    assert link_of(app)["method"] == "rloo" and app.metric[0].value == peak


def test_an_old_link_opens_as_the_method_it_meant() -> None:
    app = opened(v="1", preset="grpo-7b@1", method="rloo")
    assert field(app, "method").value == "grpo" and link_of(app)["v"] == str(VERSION)
    assert not app.error and "could not be used" not in words(app)
    assert "rloo is planned as grpo, whose memory it needs." in words(app)
    app.button(key="dismiss-reading").click().run()
    assert "rloo needs" not in words(app)


def test_an_edit_changes_the_numbers_and_the_link() -> None:
    app = opened()
    before = app.metric[0].value
    field(app, "response_tokens").set_value(32_768).run()
    assert app.metric[0].value != before
    assert link_of(app)["response_tokens"] == "32768"


def test_the_header_counts_what_differs_from_the_preset() -> None:
    app = unfold(opened(), "batch")
    field(app, "prompts_per_step").set_value(32).run()
    labels = [expander.label for expander in app.expander]
    assert "Mini- and micro-batches · 1 changed" in labels  # prompts_per_update follows
    [popover] = [one for one in app.get("popover") if "differ" in one.proto.popover.label]
    assert popover.proto.popover.label == "2 fields differ"
    app.button(key="start-over").click().run()
    assert "Mini- and micro-batches" in [expander.label for expander in app.expander]


def test_a_bad_query_is_reported_once_and_the_rest_is_used() -> None:
    app = opened(v="1", gpus="many", colour="blue", prompt_tokens="777")
    assert "2 parts of this link" in words(app)
    assert "colour is not a field of a plan" in words(app).replace("\\", "")
    assert field(app, "prompt_tokens").value == 777
    app.button(key="dismiss-reading").click().run()
    assert "could not be used" not in words(app)


@pytest.mark.parametrize(
    "query",
    [
        {"v": "99"},
        {"v": "1", "preset": "nothing@7"},
        {"v": "1", "gpus": "<script>alert(1)</script>"},
        {"v": "1", "model": "nobody/nothing-7B"},
        {"v": "1", "response_tokens": "-4", "gpu": "h200-nvl-141gb", "finetuning": "qlora"},
        {"v": "1", "config": "AAAA", "compare": "gpus=banana"},
    ],
)
def test_no_link_ends_in_a_stack_trace(query: dict[str, str]) -> None:
    app = opened(**query)
    assert "could not be used" in words(app)
    assert app.metric


def test_an_unknown_model_is_refused_by_name() -> None:
    app = opened(v="1", model="Qwen/Qwen2.5-9B")
    assert "did you mean" in words(app)


def test_a_page_that_fails_still_has_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong may be a plan that only an input can mend."""
    app = opened()
    monkeypatch.setattr("planner.ui.verdict.figures", Mock(side_effect=ZeroDivisionError))
    app.run()
    assert len(app.exception) == 1
    monkeypatch.undo()
    field(app, "gpus").set_value(4).run()
    assert not app.exception and field(app, "gpus").value == 4


def test_an_impossible_plan_keeps_what_was_typed_and_shows_no_numbers() -> None:
    app = opened()
    field(app, "gpus").set_value(9).run()
    assert "This plan is not possible" in app.error[0].value
    assert not app.metric
    assert field(app, "gpus").value == 9
    app.button(key="undo-impossible").click().run()
    assert field(app, "gpus").value == 8
    assert app.metric


def test_what_followed_an_edit_stands_below_the_verdict_and_its_figures() -> None:
    app = opened()
    field(app, "method").set_value("ppo").run()
    drawn = [(one.type, str(getattr(one, "value", ""))) for one in in_order(app.main)]
    followed = next(at for at, (_, text) in enumerate(drawn) if "changed" in text)
    figures = [at for at, (kind, _) in enumerate(drawn) if kind in ("success", "metric")]
    assert len(figures) == 6 and max(figures) < followed


def test_what_followed_an_edit_stands_on_the_page_of_the_edit_alone() -> None:
    app = opened()
    field(app, "method").set_value("ppo").run()
    assert "other setting" in words(app)
    app.switch_page("pages/launch.py").run()
    assert "other setting" not in words(app)
    field(app, "method").set_value("grpo").run()
    assert "other setting" in words(app), "an edit on another page is told there"


def in_order(block: Any) -> Iterator[Any]:
    """What a block holds, from top to bottom."""
    for child in block.children.values():
        yield from in_order(child) if hasattr(child, "children") else [child]


def test_a_number_beyond_its_limit_is_refused_in_words() -> None:
    app = opened()
    field(app, "gpus").set_value(1_000_000).run()
    said = words(app).replace("\\", "")
    assert "is '1000000': it must be at most 65536." in said and not app.metric
    assert field(app, "gpus").value == 1_000_000


def test_gpus_that_cannot_share_out_the_batch_offer_the_nearest_that_can() -> None:
    """Where somebody typed the batch, and the framework takes no rest; else the batch follows."""
    app = opened()
    field(app, "framework").set_value("trl").run()
    field(app, "prompts_per_step").set_value(72).run()
    field(app, "gpus").set_value(7).run()
    assert "Prompts per step 72 → 77, Prompts per optimizer step 72 → 77" in words(app)
    app.button(key="make-possible").click().run()
    assert not app.exception and app.metric
    assert field(app, "gpus").value == 7 and field(app, "prompts_per_step").value == 77
    app.button(key="undo-applied-advice").click().run()
    assert field(app, "prompts_per_step").value == 72 and "not possible" in words(app)


def test_a_batch_that_nobody_typed_follows_the_gpus() -> None:
    app = opened()
    field(app, "gpus").set_value(7).run()
    assert "Prompts per step 64 → 70, Mini-batch 64 → 70" in words(app)
    assert app.metric and field(app, "prompts_per_step").value == 70


def test_nothing_is_offered_where_no_batch_is_wrong() -> None:
    app = opened()
    field(unfold(app, "savers"), "gradient_checkpointing").set_value("selective").run()
    assert "not possible" in words(app)
    assert "make-possible" not in [button.key for button in app.button]


@pytest.mark.parametrize("page", PAGES)
def test_no_page_breaks_on_an_impossible_plan(page: str) -> None:
    app = opened(page)
    field(app, "gpus").set_value(9).run()
    assert not app.exception
    plans = ("plan", "scaling", "recommend", "compare", "trial", "launch")
    assert ("not possible" in words(app)) == (page in plans)


def test_a_choice_not_modelled_yet_is_listed_and_refused() -> None:
    app = opened()
    checkpointing = field(unfold(app, "savers"), "gradient_checkpointing")
    assert any("not modelled yet" in option for option in checkpointing.options)
    checkpointing.set_value("selective").run()
    assert "selective is not modelled yet" in words(app).replace("\\", "")


def test_grade_can_be_chosen_and_shows_its_own_inputs() -> None:
    app = opened()
    field(app, "method").set_value("grade").run()
    assert not app.exception
    assert app.metric
    field(unfold(app, "grade"), "grade_step_checkpointing").set_value(True).run()
    assert app.metric


def test_an_unsupported_card_says_why_and_takes_typed_bytes() -> None:
    app = opened()
    gpu = field(app, "gpu")
    assert any("nobody has reported" in option for option in gpu.options)
    gpu.set_value("h200-nvl-141gb").run()
    assert not app.metric
    field(app, "gpu_bytes").set_value(139.0).run()
    assert app.metric
    assert link_of(app)["gpu_bytes"] == str(139 * 2**30)


def test_another_card_starts_from_the_present_ones_bytes() -> None:
    app = opened()
    field(app, "gpu").set_value("custom").run()
    assert app.metric
    field(app, "gpu_bytes").set_value(30.0).run()
    assert "Does not start. vLLM needs" in app.error[0].value


def test_presets_switch_the_whole_plan() -> None:
    app = opened()
    app.selectbox(key="preset").set_value("sft-8b@1").run()
    assert field(app, "method").value == "sft"
    assert not has(app, "responses_per_prompt")  # SFT has no groups of responses
    assert link_of(app)["preset"] == "sft-8b@1"


def test_switching_the_framework_says_what_followed() -> None:
    app = unfold(opened(), "hardware")
    field(app, "framework").set_value("verl").run()
    said = words(app).replace("\\", "")
    assert "Framework → **verl** changed 4 other settings: Padding and packing padded" in said
    assert "Attention SDPA → FlashAttention-2, 1 more. GPU peak" in said
    changed = app.dataframe[0].value.set_index("Setting")
    assert [*changed.loc["Framework version"]] == ["1", "0.9.1"]
    assert link_of(app)["framework_version"] == "0.9.1"


OTHER = {**to_query(presets()["grpo-7b@1"].plan, "grpo-7b@1"), "framework": "verl"}
"""A complete link in which somebody wrote another framework, and nothing else."""


@pytest.mark.parametrize("page", ["plan", "launch"])
@pytest.mark.parametrize("query", [OTHER, {"preset": "grpo-7b@1", "framework": "verl"}])
def test_a_link_with_another_framework_says_what_followed_and_goes_back(
    query: dict[str, str], page: str
) -> None:
    app = opened(page, **query)
    said = words(app).replace("\\", "")
    assert "Framework → **verl** changed 4 other settings: Padding and packing padded" in said
    assert re.search(r"GPU peak [\d.]+ GiB → [\d.]+ GiB, step \S+ s and run \$\d+ as before", said)
    assert "The link changes" not in said and "dismiss-reading" not in {b.key for b in app.button}
    changed = app.dataframe[0].value.set_index("Setting")
    assert [*changed.loc["Framework version"]] == ["1", "0.9.1"]
    app.button(key="take-back").click().run()
    assert app.session_state["draft"].plan == presets()["grpo-7b@1"].plan
    assert "other setting" not in words(app)


def test_in_an_old_complete_link_everything_was_chosen_and_stays_until_it_is_let_go() -> None:
    app = opened(**to_query(presets()["grpo-7b@1"].plan))
    field(app, "framework").set_value("trl").run()
    assert "1 other setting would usually be different. What was chosen stays." in words(app)
    assert link_of(app)["gpu_memory_utilization"] == "0.5"
    app.button(key="take-offer").click().run()
    assert link_of(app)["gpu_memory_utilization"] == "0.3"


def test_what_stays_and_what_follows_are_both_said() -> None:
    """A link that says what was chosen: that stays, and would usually be different."""
    app = opened(**{**OTHER, "set": "batch_shape"})
    said = words(app).replace("\\", "")
    assert "Framework → **verl** changed 5 other settings: Logits dtype" in said
    assert "1 other setting would usually be different. What was chosen stays." in said
    app.button(key="take-offer").click().run()
    assert "changed 6 other settings: Padding and packing padded" in words(app).replace("\\", "")
    assert "would usually be different" not in words(app)


def test_switching_the_framework_keeps_what_was_chosen() -> None:
    app = unfold(unfold(opened(), "hardware"), "rollout")
    field(app, "gpu_memory_utilization").set_value(0.65).run()
    field(app, "framework").set_value("trl").run()
    assert link_of(app)["gpu_memory_utilization"] == "0.65"


def test_applying_a_suggestion_changes_the_plan_as_announced() -> None:
    app = opened(v="1", response_tokens="32768", micro_batch_size="8")
    assert "Out of memory" in app.error[0].value
    app.segmented_control(key="advice view").set_value("Edits").run()
    said = [text.value for text in app.markdown]
    promised = next(text for text in said if "peak " in text and "· " in text)
    app.button(key="apply:0").click().run()
    assert not app.exception
    assert f"→ **{app.metric[0].value}**" in promised


def test_units_can_be_switched() -> None:
    app = opened()
    gib = float(app.metric[0].value.split()[0])
    app.segmented_control(key="unit").set_value("GB").run()
    number, unit = app.metric[0].value.split()
    assert unit == "GB"
    assert float(number) == pytest.approx(gib * 2**30 / 1e9, abs=0.1)


def chosen(app: AppTest, key: str, place: int) -> AppTest:
    """The page after a click on a row of a table of numbers."""
    app.session_state[key] = {"selection": {"rows": [place], "columns": [], "cells": []}}
    return app.run()


def rows_of(app: AppTest, column: str) -> list[str]:
    (table,) = [one.value for one in app.dataframe if column in one.value.columns]
    return list(table[column])


def test_a_term_opens_to_its_formula_with_the_numbers_in_it() -> None:
    app = opened()
    place = rows_of(app, "What").index("vLLM weights")
    assert not any("ceil_div(parameters" in code.value for code in app.code)
    app = chosen(app, "terms:rollout", place)
    shown = next(code.value for code in app.code if "ceil_div(parameters" in code.value)
    assert "7,615,616,512" in shown and "bytes" in shown


def test_a_cause_of_time_opens_to_its_formula_rows_and_source() -> None:
    app = opened()
    app.segmented_control(key="numbers of").set_value("Time").run()
    assert not app.exception
    times, phases = rows_of(app, "Time"), rows_of(app, "Phase")
    assert all("–" in time for time in times), "each with its interval"
    assert {"rollout", "policy backward"} <= set(phases)
    place = phases.index("policy backward")
    app = chosen(app, "causes", place)
    assert any(code.value.endswith("seconds") for code in app.code)
    said = words(app)
    assert "Source: " in said and "Measured: " in said
    assert "Range from this term's own assumption: " in said
    assert f"policy backward in all: {seconds_said(app, 'policy backward')}" in said


def test_a_cause_of_time_opens_to_its_kernels_and_the_rows_measured_nearest() -> None:
    app = opened(gpu="h20-96gb")
    app.segmented_control(key="numbers of").set_value("Time").run()
    causes, phases = rows_of(app, "Cause"), rows_of(app, "Phase")
    longest = (causes[0], phases[0])
    assert longest == ("GEMMs", "policy backward")
    shapes, measured = rows_of(app, "Shape"), rows_of(app, "Measured shape")
    assert "18,944 × 2,560 by 2,560 × 3,584, bf16" in shapes and len(measured) == 4
    assert "kernels are 9" in words(app) and "Borrowed from H200 141GB SXM5" in words(app)
    # Another kernel of it has rows of its own.
    app = chosen(app, "kernels:policy backward:policy:GEMMs", 1)
    assert rows_of(app, "Measured shape") != measured
    # Another cause has other kernels; one that no table has any of, none.
    app = chosen(app, "causes", causes.index("decode attention"))
    assert rows_of(app, "Kernel") == ["decode attention"]
    assert "All of it." in words(app)
    app = chosen(app, "causes", causes.index("loss over the vocabulary"))
    assert not any("Measured shape" in table.value.columns for table in app.dataframe)
    assert not app.exception


def seconds_said(app: AppTest, name: str) -> str:
    plan = from_query(link_of(app)).plan
    assert plan is not None
    phase = next(one for one in estimate(plan).phases if one.name == name)
    assert phase.seconds is not None
    return read_seconds_between(phase.seconds, phase.low_seconds, phase.high_seconds)


def test_rates_and_money_open_as_well() -> None:
    app = opened()
    app.segmented_control(key="numbers of").set_value("Throughput and cost").run()
    figures = rows_of(app, "Figure")
    assert {"Tokens per second and GPU", "Cost of the run"} <= set(figures)
    assert any("tokens / (step_seconds * gpus)" in code.value for code in app.code)
    app = chosen(app, "rates", figures.index("Cost of the run"))
    assert any("gpu_hours * usd_per_gpu_hour" in code.value for code in app.code)


def test_time_and_money_have_their_intervals_below_them_and_none_when_out_of_memory() -> None:
    app = opened()
    below = {metric.label: metric.delta for metric in app.metric}
    assert "–" in below["Step time"] and below["Cost of run"].count("$") == 2
    assert "tokens/s per GPU" in words(app) and "MFU of the update" in words(app)
    field(app, "response_tokens").set_value(65_536).run()
    below = {metric.label: metric.delta for metric in app.metric}
    assert below["Step time"] == below["Cost of run"] == "does not run"
    assert "tokens/s per GPU" not in words(app)
    app.segmented_control(key="numbers of").set_value("Throughput and cost").run()
    assert not app.exception and "$" not in "".join(m.value for m in app.metric)


def test_a_time_at_the_cap_says_so_and_offers_a_typical_shape() -> None:
    app = opened()
    said = words(app)
    assert "every response at the 2,048-token limit" in said
    took = re.search(r"With typical lengths a step takes \*\*([\d.]+ s)", said)
    assert app.button(key="use-typical").label == "Use a typical length distribution"
    before = app.metric[2].value
    app.button(key="use-typical").click().run()
    assert link_of(app)["length_distribution"]
    assert app.metric[2].value != before and "on average" in words(app)
    assert took is not None and app.metric[2].value.endswith(took[1])
    assert "after every prompt at the 512-token limit" in words(app)
    field(unfold(app, "batch"), "mean_prompt_tokens").set_value(96).run()
    assert link_of(app)["mean_prompt_tokens"] == "96"
    assert "after prompts of 96 tokens on average" in words(app)


def test_a_time_at_the_cap_says_so_where_no_shape_is_offered() -> None:
    said = words(opened(preset="sft-8b@1"))
    assert "every response at the 3,072-token limit" in said and "typical lengths" not in said
    assert "-token limit" not in words(opened(preset="sft-8b@1", batch_shape="full"))


def test_the_time_of_each_phase_is_a_chart() -> None:
    app = opened()
    app.session_state["phases-view"] = ":material/schedule: Time"
    app.run()
    assert not app.exception
    (chart,) = app.get("vega_lite_chart")
    assert "time in a step" in chart.proto.spec


CONFIG = (
    '{"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, '
    '"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, '
    '"vocab_size": 32000, "max_position_embeddings": 8192}'
)


def test_a_pasted_config_becomes_the_model() -> None:
    app = opened()
    before = app.metric[0].value
    field(app, "model").set_value("Other model…").run()
    app.text_area(key="pasted config").set_value(CONFIG).run()
    assert not app.exception
    assert "4 layers, width 512" in words(app)
    assert app.metric[0].value != before
    assert link_of(app)["config"]


def test_a_bad_config_is_refused_by_name_and_nothing_is_lost() -> None:
    app = opened()
    before = app.metric[0].value
    field(app, "model").set_value("Other model…").run()
    app.text_area(key="pasted config").set_value('{"model_type": "llama"}').run()
    assert any("hidden_size" in error.value.replace("\\", "") for error in app.error)
    assert app.metric[0].value == before


def type_model(app: AppTest, text: str) -> None:
    """What is no option of the list: AppTest knows none that is added to it."""
    box = field(app, "model")
    box.options.append(text)
    box.set_value(text).run()
    assert not app.exception


@pytest.mark.parametrize(
    "text", ["Qwen/Qwen2.5-14B", " https://huggingface.co/Qwen/Qwen2.5-14B/tree/main ", CONFIG]
)
def test_any_model_can_be_typed_or_pasted_where_the_list_is(text: str) -> None:
    app = opened()
    before = app.metric[0].value
    type_model(app, text)
    assert app.metric[0].value != before and not app.error
    assert (link_of(app)["config"] != "") is (text == CONFIG)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("qwen2.5-14b", "Qwen/Qwen2.5-14B"),
        ("qwen/QWEN2.5-14b", "Qwen/Qwen2.5-14B"),
        ("Qwen3-8", "Qwen/Qwen3-8B"),
        ("14b", "Qwen/Qwen3-14B"),
    ],
)
def test_a_part_of_a_name_is_the_most_popular_model_that_has_it(text: str, meant: str) -> None:
    """The list has what was typed as its first choice, which Enter takes."""
    app = opened()
    type_model(app, text)
    assert link_of(app)["model"] == meant and not app.error


def test_an_id_that_cannot_be_had_opens_the_ways_to_bring_its_config(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    app = opened()
    type_model(app, "mistralai/Foo-VL-7B")
    assert "paste its config.json instead" in app.error[0].value.replace("\\", "")
    assert app.text_area(key="pasted config") and not app.success
    type_model(app, "Qwen2.5-7C")
    assert "Qwen/Qwen2.5-7B" in app.error[0].value.replace("\\", "")
    field(app, "model").set_value("Qwen/Qwen2.5-14B").run()
    assert not app.error and app.success


def test_no_verdict_is_green_while_another_model_is_being_given() -> None:
    app = opened()
    assert app.success
    field(app, "model").set_value("Other model…").run()
    assert not app.success and "Still showing the last plan that works" in app.info[0].value
    assert app.metric[0].color not in ("green", "red")
    assert ":green-badge" not in words(app).split("What sets the peak")[0]
    app.text_area(key="pasted config").set_value('{"model_type": "llama"}').run()
    assert not app.success
    field(app, "model").set_value("Qwen/Qwen2.5-7B").run()
    assert "Fits. Peak " in app.success[0].value


def test_what_does_not_run_has_no_price() -> None:
    app = opened(v="1", preset="grpo-7b@1", set="framework", response_tokens="65536")
    app.button(key="dismiss-reading").click().run()  # it looks like one that was cut off
    assert "Out of memory" in app.error[0].value
    field(unfold(app, "hardware"), "framework").set_value("verl").run()
    followed = next(text.value for text in app.markdown if "other setting" in text.value)
    assert "GPU peak" in followed
    assert not [word for word in ("$", "run ", "step ") if word in followed]
    given = opened(v="1", method="dpo", reference="cached-activations", gpu="rtx-4090")
    assert given.error, "too small a card"
    costs = next(one.value for one in given.markdown if "Cost of the cached" in one.value)
    assert "outputs on a disk" in costs and "$" not in costs


def test_the_chosen_phase_is_listed_and_marked_in_the_chart() -> None:
    app = opened()
    app.selectbox(key="phase").set_value("policy backward").run()
    assert not app.exception
    said = next(one.value for one in app.caption if one.value.startswith("policy backward, at "))
    assert "requested" in said
    (chart,) = app.get("vega_lite_chart")
    (param,) = json.loads(chart.proto.spec)["params"]
    assert param["value"] == [{"phase": "policy backward"}]


def test_a_cached_reference_says_what_it_costs() -> None:
    sampled = opened(v="1", preset=INTUITOR, kl="loss", reference="cached-logprobs")
    assert "Cost of the cached reference.** Responses are new in each step" in words(sampled)
    assert any("cannot be computed before the run" in one.value for one in sampled.warning)
    given = opened(v="1", method="dpo", reference="cached-activations")
    assert "Before the run the reference scores up to" in words(given)
    assert "outputs on a disk" in words(given)
    assert "Cost of the cached reference" not in words(opened())


def test_formulas_can_be_searched() -> None:
    app = opened("formulas")
    assert "formulas." in words(app)
    app.text_input(key="formula search").set_value("kv_heads head_dim").run()
    assert any("**KV cache**" in text.value for text in app.markdown)
    app.text_input(key="formula search").set_value("no such thing anywhere").run()
    assert app.info


def test_formulas_of_time_and_of_what_comes_of_it_are_groups_of_their_own() -> None:
    app = opened("formulas")
    app.selectbox(key="formula group").set_value("throughput").run()
    assert any("**model FLOPs utilization of the update (MFU)**" in m.value for m in app.markdown)
    app.selectbox(key="formula group").set_value("time").run()
    said = "\n".join(text.value for text in app.markdown)
    assert "**one kernel by its shape**" in said and "MFU" not in said


def test_every_card_says_whose_kernel_tables_its_times_rest_on() -> None:
    app = opened("formulas")
    app.session_state["open:kernel-tables"] = True
    app.run()
    (table,) = [one.value for one in app.dataframe if "Tables" in one.value.columns]
    by_card = {row["Card"]: row for _, row in table.iterrows()}
    assert len(by_card) == len(gpus())
    own = by_card["H100 80GB SXM5"]
    assert own["Tables"] == "its own" and own["Kernels measured on"] == "H100 80GB SXM5"
    assert by_card["RTX 4090"]["Tables"] == "borrowed"
    assert by_card["RTX 4090"]["Kernels measured on"] in by_card


def test_an_example_opens_as_a_plan() -> None:
    app = opened("examples")
    app.session_state["open:depth-000"] = True
    app.run().button(key="open:000:doc-000-ppo@1").click().run()
    assert not app.exception
    assert app.selectbox(key="preset").value == "doc-000-ppo@1"


def test_the_opened_phase_follows_the_worst_until_one_is_chosen() -> None:
    app = opened()
    assert app.selectbox(key="phase").value == "rollout"
    field(app, "response_tokens").set_value(32_768).run()
    assert app.selectbox(key="phase").value == "policy backward"
    app.selectbox(key="phase").set_value("load").run()
    field(app, "response_tokens").set_value(1024).run()
    assert app.selectbox(key="phase").value == "load"


def test_a_preset_puts_an_other_model_away() -> None:
    app = opened()
    field(app, "model").set_value("Other model…").run()
    assert app.text_area
    app.selectbox(key="preset").set_value("sft-8b@1").run()
    assert not app.text_area
    assert field(app, "model").value == presets()["sft-8b@1"].plan.model


@pytest.mark.parametrize("preset", presets())
def test_the_next_phase_is_another_one_than_the_worst(preset: str) -> None:
    """Phases tie where one holds what another one cached."""
    app = opened(preset=preset)
    told = words(app)
    [worst] = [one.value for one in app.metric if one.label == "Worst phase"]
    assert "Next highest: " in told
    assert f"Next highest: {worst}, " not in told


def test_every_page_opens_again_after_the_others() -> None:
    """A widget that another page does not draw is forgotten, and comes back without a value."""
    app = opened()
    for _ in range(2):
        for page in sorted(Path(APP).parent.joinpath("pages").glob("*.py")):
            app.switch_page(f"pages/{page.name}").run()
            assert not app.exception, page.name
