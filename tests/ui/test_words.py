"""What the pages say: labels and no field names, nothing that a link made a link of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planner.plan import Plan
from planner.plan.presets import presets
from planner.wording.display import plain
from planner.wording.fields import labelled, short_label
from ui.opened_pages import APP, field, opened, words

MANY = tuple(name for name in Plan.model_fields if "_" in name)
TOO_LARGE = {"response_tokens": "32768", "micro_batch_size": "8"}


def test_sentences_have_labels_in_place_of_field_names() -> None:
    said = labelled("Lower prompt_tokens or set gpu_memory_utilization=0.3; kl_x stays.")
    assert said == "Lower “Prompt length” or set “GPU memory utilization” 0.3; kl_x stays."
    # A label may be the call that a field is about.
    assert not [name for name in MANY if "_" in re.sub(r"[\w.]+\(\)", "", short_label(name))]


PAGES = tuple(sorted(path.stem for path in (Path(APP).parent / "pages").glob("*.py")))
EDITED = ("plan", "launch", "scaling")
"""Pages that answer every edit of the inputs; the others show a plan that runs."""


@pytest.mark.parametrize("page", [page for page in PAGES if page not in EDITED])
@pytest.mark.parametrize("preset", ["grpo-7b@1", "ppo-7b@1", "doc-002-after@2"])
def test_no_other_page_shows_a_field_name(page: str, preset: str) -> None:
    app = opened(page, v="1", preset=preset)
    inputs = (app.number_input, app.selectbox, app.multiselect, app.toggle, app.text_input)
    every = [one for kind in inputs for one in kind]
    shown = [f"{one.label}\n{one.help}\n{getattr(one, 'options', '')}" for one in every]
    text = "\n".join([words(app), *shown])
    assert [name for name in MANY if re.search(rf"(?<![\w`]){name}(?![\w`])", text)] == []


@pytest.mark.parametrize("page", EDITED)
@pytest.mark.parametrize(
    "query",
    [
        {"preset": "grpo-7b@1", **TOO_LARGE},
        {"preset": "grpo-7b@1", "gpu_memory_utilization": "0.05"},
        {"preset": "ppo-7b@1", "response_tokens": "-4", "micro_batch_size": "x"},
        {"preset": "intuitor-1.5b@1"},
    ],
)
def test_no_page_shows_a_field_name(page: str, query: dict[str, str]) -> None:
    text = words(opened(page, v="1", **query))
    found = [name for name in MANY if re.search(rf"(?<![\w`]){name}(?![\w`])", text)]
    assert page == "launch" or found == []
    if page == "launch":  # notes there name the framework's own options
        assert "response_tokens" not in found


def test_an_impossible_edit_is_said_with_labels_once() -> None:
    app = opened()
    field(app, "responses_per_prompt").set_value(3).run()
    text = words(app).replace("\\", "")
    assert "responses_per_prompt" not in text


@pytest.mark.parametrize(
    "text",
    [
        "http://evil.example/x",
        "https://a.b.c",
        "www.evil.example",
        "someone@evil.example",
        "WWW.evil.example",
    ],
)
def test_nothing_from_outside_can_become_a_link(text: str) -> None:
    """The page's Markdown makes links of what these patterns find in a text once it is read."""
    shown = re.sub(r"\\([^\w\s])", r"\1", plain(f"before {text} after"))
    address = r"(?i)https?://[-\w]+\.[-.\w]+|www(?=\.)|[-.\w+]+@[-\w]+(?:\.[-\w]+)+"
    assert re.search(address, text) and not re.search(address, shown)
    assert shown.replace("\u2060", "") == f"before {text} after"


def test_a_key_is_named_once() -> None:
    told = words(opened(v="1", colour="blue")).replace("\\", "").splitlines()
    # The verdict names what it leaves out; of what is wrong with the link it is one word.
    assert sum(line.count("colour") for line in told if "is left out" not in line) == 1


def test_one_problem_is_one_thing() -> None:
    assert "1 part of this link could not be used" in words(opened(v="1", gpus="many"))


def test_a_plan_that_does_not_run_shows_no_money_and_no_hours() -> None:
    app = opened(v="1", **TOO_LARGE)
    figures = {metric.label: metric.value for metric in app.metric}
    assert figures["Cost of run"] == figures["Step time"] == "—"
    # Advice says what a plan would cost that runs, beside the peak that it would have.
    money = [line for line in words(app).splitlines() if "$" in line]
    assert money and all("peak" in line and "→" in line for line in money)
    assert "does not run" in [metric.delta for metric in app.metric]


def test_a_wrong_input_says_which_plan_is_still_shown() -> None:
    app = opened()
    field(app, "model").set_value("Other model…").run()
    assert not app.success, "nothing was given yet"
    app.text_area(key="pasted config").set_value('{"model_type": "llama"}').run()
    assert not app.success
    assert "Still showing the last plan that works: Fits. Peak " in words(app).replace("\\", "")
    assert "GRPO of Qwen2.5-7B" in words(app)
    field(app, "model").set_value("Qwen/Qwen2.5-1.5B").run()
    assert app.success and "Still showing" not in words(app)


def test_a_link_of_which_nothing_can_be_used_says_so_beside_the_verdict() -> None:
    assert "Still showing the last plan that works" in words(opened(v="99"))


def test_the_fields_words_stand_in_suggestions() -> None:
    every = [title for preset in presets().values() for title in titles(preset.plan)]
    assert {"Use fused linear cross-entropy", "Turn on gradient checkpointing"} <= {*every}
    assert not [title for title in every if "tiles" in title or "Recompute" in title]


def titles(plan: Plan) -> list[str]:
    from planner.advice.edits import edits

    return [edit.title for edit in edits(plan)]
