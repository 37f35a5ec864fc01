"""Advice on the Plan page: taken with one click, told what it did, undone exactly."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from planner.advice.cards import Choice, mended
from planner.estimate import estimate
from planner.plan import Plan
from planner.ui import compute
from planner.ui.plan import other_gpus
from ui.opened_pages import field, opened, press_in_row, words

BLOCKED = {
    "v": "1", "preset": "grpo-7b@1", "model": "Qwen/Qwen2.5-14B", "gpu": "a100-40gb",
    "response_tokens": "8192", "validation_response_tokens": "8192",
}  # fmt: skip


def buttons(app: AppTest) -> list[str]:
    return [str(button.key) for button in app.button]


def view(app: AppTest, key: str, name: str) -> AppTest:
    app = app.segmented_control(key=key).set_value(name).run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def on_cards(app: AppTest) -> pd.DataFrame:
    (table,) = [one.value for one in app.dataframe if "Run, $" in one.value.columns]
    return table


def test_one_click_makes_a_plan_fit_says_so_and_is_undone_exactly() -> None:
    app = opened(**BLOCKED)
    before = app.session_state["draft"]
    assert "Does not start" in app.error[0].value
    assert "vLLM starts" in words(app) and "Keeps model, lengths and GPUs" in words(app)
    app.button(key="make-it-fit").click().run()
    assert not app.exception and "Fits. Peak " in app.success[0].value
    after = app.session_state["draft"]
    assert after.values["finetuning"] == "full" and after.values["gpus"] == 8
    (said,) = [one.value for one in app.markdown if "**Applied.**" in one.value]
    assert "Tensor parallel size 1 → **" in said and "GPU peak" in said
    changed = [name for name, value in after.values.items() if before.values[name] != value]
    assert said.count("→ **") == len(changed)
    app.button(key="undo-applied-advice").click().run()
    assert app.session_state["draft"] is before
    assert not any("**Applied.**" in one.value for one in app.markdown)


def test_two_suggestions_are_undone_one_after_the_other() -> None:
    app = opened(**BLOCKED)
    first = app.session_state["draft"]
    app.button(key="make-it-fit").click().run()
    second = app.session_state["draft"]
    app = view(app, "advice view", "Edits")
    app.button(key="apply:0").click().run()
    assert app.session_state["draft"] is not second
    app.button(key="undo-applied-advice").click().run()
    assert app.session_state["draft"] is second
    app.button(key="undo-applied-advice").click().run()
    assert app.session_state["draft"] is first


def test_an_edit_ends_what_can_be_undone() -> None:
    app = opened()
    app.button(key="use-the-room").click().run()
    app.button(key="faster:0").click().run()
    assert "undo-applied-advice" in buttons(app)
    app.number_input(key="field:prompt_tokens").set_value(256).run()
    assert "undo-applied-advice" not in buttons(app)


def test_a_plan_that_fits_is_told_what_its_room_buys() -> None:
    app = opened()
    assert "free at the peak" in words(app) and "make-it-fit" not in buttons(app)
    assert "full-length sequences" in words(app) and "faster:0" not in buttons(app)
    before = app.session_state["draft"]
    app.button(key="use-the-room").click().run()
    assert app.session_state["draft"] is before, "it only says what the room would buy"
    steps = [one.value for one in app.markdown if "· step" in one.value]
    assert steps and "within the error of the times" in words(app)
    app.button(key="room-all").click().run()
    assert not app.exception and app.success
    assert app.session_state["draft"] is not before
    assert "use-the-room" not in buttons(app), "asked once, it is shown from then on"


def test_the_other_views_of_the_panel() -> None:
    app = view(opened(), "advice view", "vLLM")
    assert "full-length sequences" in words(app) and "share:0" in buttons(app)
    app = view(app, "advice view", "No effect")
    assert "Often tried, no help here" in words(app)
    app = view(app, "advice view", "Edits")
    assert "What lowers rollout" in words(app) and "apply:0" in buttons(app)


def test_a_card_of_the_table_is_taken() -> None:
    app = view(opened(), "explore view", "GPU options")
    table = on_cards(app)
    assert set(table["Verdict"]) <= {"fits", "tight"}
    known = table[table["Verdict"] == "fits"]["Run, $"].dropna()
    assert len(known) > 20 and known.is_monotonic_increasing
    place = table.index[(table["GPU"] == "H200 141GB SXM5") & (table["Count"] == 4)][0]
    press_in_row(app, "Apply", int(place))
    assert not app.exception
    values = app.session_state["draft"].values
    assert (values["gpu"], values["gpus"]) == ("h200-141gb", 4)
    app.button(key="undo-applied-explore").click().run()
    named = app.selectbox(key="gpus chosen")
    assert named.options[place] == "4 × H200 141GB SXM5: fits"
    named.set_value(place).run()
    app.button(key="apply-named-gpus").click().run()
    values = app.session_state["draft"].values
    assert (values["gpu"], values["gpus"]) == ("h200-141gb", 4)
    assert "undo-applied-explore" in buttons(app)
    table = on_cards(app)
    own = (table["GPU"] == "H200 141GB SXM5") & (table["Count"] == 4)
    assert list(table.index[table["Apply"] == ""]) == list(table.index[own]), "it is the plan"


class Mended:
    """In place of :class:`planner.search.ask.Mending`: by whoever says so, in this process."""

    given_up, error, doing, share = False, "", "Making each fit", 0.3
    elapsed_seconds = took_seconds = 4.0

    def __init__(self, plan: Plan, found: tuple[Choice, ...], *_: Any) -> None:
        self.plan, self.running, self.cancelled = plan, True, False
        self._choices, self.found = found, None

    def end(self) -> None:
        some = [one for one in self._choices if one.gpu == "rtx-4090"]
        self.running, self.found = False, mended(self.plan, some, estimate)

    def cancel(self) -> None:
        self.running, self.given_up = False, True


def test_cards_on_which_it_does_not_fit_are_mended_when_asked_and_taken_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(other_gpus, "Mending", Mended)
    app = view(opened(), "explore view", "GPU options")
    before = on_cards(app)
    assert "Changes" not in before and not (before["GPU"] == "RTX 4090").any()
    app.button(key="mend-gpus").click().run()
    asked = app.session_state["mending"]
    assert "mend-cancel" in buttons(app) and "mend-gpus" not in buttons(app)
    asked.end()
    app.run()
    table = on_cards(app)
    rows = table[table["GPU"] == "RTX 4090"]
    assert len(rows) > 3 and set(rows["Verdict"]) == {"fits, changed"}
    assert all(rows["Changes"]) and "found in 4.00 s" in words(app)
    press_in_row(app, "Apply", int(rows.index[0]))
    plan = app.session_state["draft"].plan
    assert plan.gpu == "rtx-4090" and estimate(plan).verdict.word == "fits"
    kept = ("finetuning", "response_tokens", "model")
    assert all(getattr(plan, name) == getattr(asked.plan, name) for name in kept)
    assert "mend-gpus" in buttons(app), "another plan, which nobody asked to mend"


def test_mending_is_given_up_by_its_button_and_by_another_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(other_gpus, "Mending", Mended)
    app = view(opened(), "explore view", "GPU options")
    app.button(key="mend-gpus").click().run()
    app.button(key="mend-cancel").click().run()
    assert app.session_state["mending"].given_up and "mend-gpus" in buttons(app)
    app.button(key="mend-gpus").click().run()
    second = app.session_state["mending"]
    field(app, "response_tokens").set_value(4096).run()
    assert second.given_up and "mending" not in app.session_state


def test_ablation_and_the_reference_are_drawn() -> None:
    app = view(opened(v="1", kl="loss"), "explore view", "Ablation")
    chosen = app.multiselect(key="ablation of")
    assert "Gradient checkpointing" in chosen.value and "LoRA" not in chosen.options
    charts = len(app.get("vega_lite_chart"))
    app = view(app, "ablation measure", "GPU peak")
    assert len(app.get("vega_lite_chart")) == charts >= 3
    app.multiselect(key="ablation of").set_value([]).run()
    assert "Choose at least one" in words(app)
    app = view(app, "explore view", "Reference")
    assert "each way to get reference log-probs" in words(app)


def test_advice_gives_way_to_an_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each estimate of the advice looks whether somebody edited meanwhile."""
    calls = []
    monkeypatch.setattr(compute, "let_it_show", lambda: None)
    monkeypatch.setattr(compute, "give_way", lambda: calls.append(1))
    compute._advice.cache_clear()
    opened(v="1", response_tokens="1999")
    assert not calls, "a plan that fits is given advice when it is asked for"
    opened(**BLOCKED)
    assert len(calls) > 20
    again = len(calls)
    opened(**BLOCKED)
    assert len(calls) == again, "known advice is drawn at once"
