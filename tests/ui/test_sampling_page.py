"""The Sampling page through the frame: its own sidebar, address and answer."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from streamlit.testing.v1 import AppTest

from planner.sampling.link import from_query_string, to_query
from planner.sampling.presets import DEFAULT, DOCUMENT, PRESETS

APP = str(Path(__file__).parents[2] / "app.py")


def opened(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600)
    app.run()
    app.switch_page("pages/sampling.py")
    app.query_params.clear()  # as a browser does that goes to another page
    for key, value in query.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def words(app: AppTest) -> str:
    shown = (app.markdown, app.caption, app.success, app.warning, app.error, app.info)
    return "\n".join(str(element.value) for kind in shown for element in kind)


def test_the_answer_stands_first_with_mode_figures_and_a_link() -> None:
    app = opened()
    assert "Fits" in app.success[0].value and "Recommended" in app.success[0].value
    assert app.success[0].value.count("GiB host RAM") == 1, "what is said is not said again"
    labels = [metric.label for metric in app.metric]
    assert labels == ["Host RAM", "GPU", "Time", "Disk", "Online works up to", "Recall"]
    link = urlsplit(app.code[-1].value)
    assert link.path.endswith("/sampling")
    assert from_query_string(link.query).plan == PRESETS[DEFAULT][1]
    keys = parse_qs(link.query, keep_blank_values=True).keys()
    assert keys == to_query(PRESETS[DEFAULT][1]).keys()


def test_the_documents_case_opens_as_a_link_and_says_what_its_code_does() -> None:
    app = opened(**to_query(PRESETS[DOCUMENT][1]))
    assert app.metric[0].value == "10.9 GiB"
    assert app.metric[0].delta == "at concatenating"
    assert "all embeddings are copied twice" in words(app)
    assert app.selectbox(key="sampling preset").value == DOCUMENT
    assert app.button(key="use-recommended").label == "Use offline"
    app.button(key="use-recommended").click().run()
    assert app.selectbox(key="sampling:mode").value == "offline"
    assert app.metric[0].value == "5.6 GiB"


def test_cards_and_choices_are_read_by_name() -> None:
    app = opened()
    shown = app.selectbox(key="sampling:device").options
    assert "CPU" in shown and "RTX 4090 · 23.5 GiB" in shown
    assert not {"cpu", "rtx-4090"} & set(shown)


def test_an_edit_changes_answer_and_address() -> None:
    app = opened()
    app.number_input(key="sampling:prompts").set_value(56_000).run()
    assert "56,000 prompts" in app.success[0].value
    assert app.query_params["prompts"] in ("56000", ["56000"])
    app.number_input(key="sampling:host_ram").set_value(0.5).run()
    assert "Out of memory" in app.error[0].value


def test_an_ivf_index_has_lists_and_an_unsampled_recall() -> None:
    app = opened()
    keys = [one.key for one in app.number_input]
    assert "sampling:lists" not in keys
    app.selectbox(key="sampling:index").set_value("faiss-ivf").run()
    assert "sampling:probes" in [one.key for one in app.number_input]
    assert app.metric[5].value == "not measured"
    assert "recall of an IVF index is unknown" in words(app)


def test_what_cannot_be_is_said_by_label_and_stays_in_the_address() -> None:
    app = opened()
    app.number_input(key="sampling:neighbours").set_value(1024).run()
    app.number_input(key="sampling:prompts").set_value(500).run()
    assert "do not work together" in app.error[0].value
    assert "**Neighbours (k)**: A prompt is not its own neighbour" in words(app)
    assert not app.metric
    assert app.query_params["neighbours"] in ("1024", ["1024"])


def test_a_hostile_link_is_said_and_the_rest_used() -> None:
    app = opened(dimensions="64", prompts="9e9", index="<script>", host_ram="1")
    said = words(app)
    assert "Part of this link could not be used" in said
    assert "whole number" in said and "<script>" not in said.replace("\\<script\\>", "")
    assert "Out of memory" in app.error[0].value
    app.button(key="dismiss-sampling-reading").click().run()
    assert "could not be used" not in words(app)


def test_terms_open_to_formula_numbers_and_source() -> None:
    app = opened(**to_query(PRESETS[DOCUMENT][1]))
    app.session_state["open:sampling:concatenate:embeddings:embeddings"] = True
    app.run()
    shown = "\n".join(str(code.value) for code in app.code)
    assert "prompts * dimensions * value_bytes" in shown
    assert "= 28,000 * 50,304 * 4" in shown
    assert "= 5,634,048,000 bytes" in shown


def test_going_to_another_page_and_back_keeps_both_plans() -> None:
    app = opened()
    app.number_input(key="sampling:prompts").set_value(31_000).run()
    app.switch_page("pages/plan.py").run()
    assert not app.exception
    assert app.selectbox(key="preset").value == "grpo-7b@1"
    app.query_params.clear()
    app.switch_page("pages/sampling.py").run()
    assert app.number_input(key="sampling:prompts").value == 31_000
