"""The dry run's section on the Plan page, in every state, with a port that starts nothing."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import dry_run_answers as answers
from planner.background import Refused
from planner.dryrun.ask.answer import DryRun, answer
from planner.estimate import estimate
from planner.plan import Plan
from planner.trial.evidence.stated_error import stated_of

APP = str(Path(__file__).parents[2] / "app.py")
BUTTON, CANCEL, SNAPSHOT = "dry-run-start", "dry-run-cancel", "dry-run-snapshot"
CHANGED = "The plan has changed since the last dry run"


def good(plan: Plan) -> DryRun:
    return answer(plan, answers.found())


def opened() -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600)
    for key, value in answers.SFT.items():
        app.query_params[key] = value
    return looked_at(app)


def looked_at(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def keys(app: AppTest) -> set[str]:
    buttons = {button.key for button in app.button}
    return buttons | {str(box.key) for box in app.selectbox}


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def at_rest(app: AppTest) -> AppTest:
    """The page once its job's thread is over, as the polling would show it."""
    end = time.monotonic() + 600
    while app.session_state["dry run job"].running:
        assert time.monotonic() < end
        time.sleep(0.01)
    return looked_at(app)


def edit(app: AppTest, tokens: int) -> AppTest:
    next(box for box in app.number_input if box.key == "field:prompt_tokens").set_value(tokens)
    return looked_at(app)


def words(app: AppTest) -> str:
    shown = (app.markdown, app.caption, app.info)
    return "\n".join(str(part.value) for kind in shown for part in kind).replace("\\", "")


def seconds(app: AppTest) -> int:
    """What the page says a dry run has taken so far."""
    said = re.search(r"Running … (\d+) s", words(app))
    assert said
    return int(said[1])


def tables(app: AppTest) -> list[pd.DataFrame]:
    """The answer's two tables: phases, and what is alive at a peak."""
    found = [frame.value for frame in app.dataframe]
    names = ("Difference, %", "Made in")
    return [next(one for one in found if name in one.columns) for name in names]


def has_answer(app: AppTest) -> bool:
    return "dry-run-phase" in keys(app)


def test_nothing_is_executed_until_somebody_presses(fake_port) -> None:
    app = opened()
    looked_at(app)
    assert not app.button(key=BUTTON).disabled
    assert "real training step on fake tensors" in words(app)
    assert fake_port.asked == []
    assert not has_answer(app) and CHANGED not in words(app)


def test_the_process_is_started_ahead_once_for_a_visitor(fake_port) -> None:
    app = opened()
    assert fake_port.warmed.wait(10)
    fake_port.warmed.clear()
    edit(app, 300)
    assert not fake_port.warmed.wait(0.2)


def test_a_step_that_gives_memory_back_to_fit_is_called_tight_with_the_reason(fake_port) -> None:
    fake_port.outcome = lambda plan: answer(plan, answers.found(alloc_retries=3))
    app = at_rest(press(opened(), BUTTON))
    said = words(app)
    assert "The dry run's verdict: Tight. Peak " in said
    assert "To fit, the allocator frees its cached memory 3 times a step" in said


def test_while_it_runs_the_page_stays_usable_and_counts_seconds(fake_port) -> None:
    fake_port.go.clear()
    fake_port.outcome = good
    app = press(opened(), BUTTON)
    assert app.button(key=BUTTON).disabled
    before = seconds(app)
    assert app.metric and not has_answer(app)
    job = app.session_state["dry run job"]
    job._started -= 4242
    assert seconds(looked_at(app)) - before >= 4242
    assert app.session_state["dry run job"] is job
    fake_port.go.set()
    at_rest(app)
    assert has_answer(app) and BUTTON not in keys(app) and CANCEL not in keys(app)
    assert len(fake_port.asked) == 1


def test_an_answer_is_sentences_tables_and_the_timeline(fake_port) -> None:
    fake_port.outcome = good
    app = at_rest(press(opened(), BUTTON))
    text = words(app)
    assert "The dry run's verdict: Fits. Peak " in text
    assert "peaks in policy backward" in text
    assert "Ran Headroom's step with torch 2.13.0 and transformers 5.23.0 in 1.50 s" in text
    assert "compiled layers keep less" in text
    assert len(app.get("vega_lite_chart")) == 2
    table, alive = tables(app)
    assert list(table["Phase"])[:2] == ["load", "policy forward"]
    assert list(table["Dry run, GiB"])[0] == "closed form only"
    assert list(alive["Made in"])[0] == "of policy backward"


def test_a_phase_can_be_chosen_and_the_worst_is_open_first(fake_port) -> None:
    fake_port.outcome = good
    app = at_rest(press(opened(), BUTTON))
    assert app.selectbox(key="dry-run-phase").value == "policy backward"
    app.selectbox(key="dry-run-phase").set_value("optimizer step").run()
    assert "of optimizer step" in set(tables(app)[1]["Made in"])


def test_the_chosen_unit_is_used_everywhere(fake_port) -> None:
    fake_port.outcome = good
    app = at_rest(press(opened(), BUTTON))
    app.segmented_control(key="unit").set_value("GB").run()
    assert "Dry run, GB" in tables(app)[0].columns
    # 6 GiB of activations are 6.4 GB.
    assert "6.4 GB" in next(text.value for text in app.markdown if "largest tensor" in text.value)


def test_giving_up_ends_it_and_the_next_press_works(fake_port) -> None:
    fake_port.go.clear()
    fake_port.outcome = good
    app = press(opened(), BUTTON)
    fake_port.warmed.clear()
    press(app, CANCEL)
    at_rest(app)
    assert "Cancelled; nothing was kept" in words(app) and not has_answer(app)
    assert fake_port.warmed.wait(10), "the next press would pay for the imports"
    fake_port.go.set()
    assert has_answer(at_rest(press(app, BUTTON)))


def test_a_refusal_is_a_sentence_with_a_way_on(fake_port) -> None:
    fake_port.outcome = Refused("quantization: no kernel of bitsandbytes runs here.")
    app = at_rest(press(opened(), BUTTON))
    assert "no kernel of bitsandbytes runs here. The closed form above needs no" in words(app)
    assert not app.button(key=BUTTON).disabled and not has_answer(app)
    fake_port.outcome = good
    at_rest(press(app, BUTTON))
    assert has_answer(app) and "bitsandbytes" not in words(app)


def test_a_refusal_belongs_to_its_plan(fake_port) -> None:
    fake_port.outcome = Refused("quantization: no.")
    app = edit(at_rest(press(opened(), BUTTON)), 300)
    assert "quantization" not in words(app)


def test_no_failure_of_the_port_is_a_stack_trace(fake_port) -> None:
    fake_port.outcome = OSError("no memory for a process")
    app = at_rest(press(opened(), BUTTON))
    assert "OSError: no memory for a process" in words(app)
    assert not app.exception and not app.button(key=BUTTON).disabled


def test_a_stored_answer_is_shown_at_once(fake_port) -> None:
    fake_port.stored = good
    app = opened()
    assert has_answer(app) and BUTTON not in keys(app)
    assert fake_port.asked == []


@pytest.mark.parametrize("error", [KeyError("phases"), TypeError(), ValueError()])
def test_a_stored_answer_that_cannot_be_read_is_none(fake_port, error: Exception) -> None:
    def broken(plan: Plan) -> DryRun | None:
        raise error

    fake_port.stored = broken
    app = opened()
    assert not app.button(key=BUTTON).disabled


def test_another_plan_does_not_get_the_old_answer(fake_port) -> None:
    fake_port.outcome = good
    app = at_rest(press(opened(), BUTTON))
    first = fake_port.asked[0]
    fake_port.stored = lambda plan: good(plan) if plan == first else None
    edit(app, 300)
    assert not has_answer(app) and CHANGED in words(app)
    assert "peaks in policy backward" not in words(app)
    edit(app, first.prompt_tokens)
    assert has_answer(app) and CHANGED not in words(app)
    assert fake_port.asked == [first]


def test_a_plan_changed_under_way_waits_for_its_own_answer(fake_port) -> None:
    fake_port.go.clear()
    fake_port.outcome = good
    app = edit(press(opened(), BUTTON), 300)
    assert "Running the plan before your change" in words(app)
    fake_port.go.set()
    at_rest(app)
    assert not has_answer(app)
    at_rest(press(app, BUTTON))
    assert has_answer(app)
    assert [plan.prompt_tokens for plan in fake_port.asked][-1] == 300


def test_a_snapshot_is_made_on_demand_and_the_answer_stays(fake_port) -> None:
    fake_port.outcome = good
    app = at_rest(press(opened(), BUTTON))
    fake_port.go.clear()
    press(app, SNAPSHOT)
    assert has_answer(app) and CANCEL in keys(app)
    fake_port.go.set()
    at_rest(app)
    assert has_answer(app) and SNAPSHOT not in keys(app)
    assert app.session_state["dry run job"].snapshot == b"allocations"
    labels = [button.proto.label for button in app.get("download_button")]
    assert "Snapshot for PyTorch's viewer" in labels and "Dry run as JSON" in labels


def test_a_snapshot_given_up_leaves_the_answer(fake_port) -> None:
    fake_port.outcome = good
    app = at_rest(press(opened(), BUTTON))
    fake_port.go.clear()
    press(press(app, SNAPSHOT), CANCEL)
    at_rest(app)
    assert has_answer(app) and SNAPSHOT in keys(app) and "Cancelled; nothing was kept" in words(app)


def test_a_new_press_ends_what_another_plan_still_asks(fake_port) -> None:
    fake_port.outcome = good
    app = at_rest(press(opened(), BUTTON))
    fake_port.go.clear()
    press(app, SNAPSHOT)
    old = app.session_state["dry run job"]
    edit(app, 300)
    press(app, BUTTON)
    assert old.cancelling and app.session_state["dry run job"] is not old
    fake_port.go.set()
    assert has_answer(at_rest(app))


def test_another_answer_opens_at_its_own_worst_phase(fake_port) -> None:
    fake_port.stored = good
    app = opened()
    app.selectbox(key="dry-run-phase").set_value("optimizer step").run()
    edit(app, 300)
    assert app.selectbox(key="dry-run-phase").value == "policy backward"


def big(plan: Plan) -> DryRun:
    """Most of the card, where the closed form has a small part of it."""
    shares = {"parameters": 2, "activations": 58}
    names = ("policy forward", "policy backward", "optimizer step")
    return answer(plan, answers.found(phases=[answers.phase(name, shares) for name in names]))


def peak(app: AppTest) -> str:
    return next(one.value for one in app.metric if one.label == "GPU peak")


def headline(app: AppTest) -> str:
    boxes = (*app.success, *app.warning, *app.error)
    return next(box.value for box in boxes if "Peak " in box.value or "Does not" in box.value)


def test_a_dry_run_takes_over_verdict_and_figures_and_says_so(fake_port) -> None:
    app = opened()
    closed = peak(app)
    assert ":gray-badge[:material/function: Closed form]" in words(app)
    fake_port.outcome = big
    at_rest(press(app, BUTTON))
    found = stated_of(big(fake_port.asked[0])).footprint
    own = f"{found.device_bytes / 2**30:.1f} GiB"
    assert own != closed and peak(app) == own
    assert headline(app) == f"**{found.verdict.sentence}**"
    assert f":blue-badge[:material/done_all: Dry run] Closed form: {closed}." in words(app)
    assert "of 79.1 GiB, during" in headline(app) and "on the GPU " in words(app)
    pill = next(one.value for one in app.markdown if "-badge[" in one.value and "**" in one.value)
    assert own.removesuffix(" GiB") in pill
    # The breakdown adds up to it, by the closed form's terms and the dry run's difference.
    assert any("what the dry run adds" in str(table.value.to_dict()) for table in app.dataframe)


def test_a_dry_run_of_another_layout_takes_nothing_over(fake_port) -> None:
    app = AppTest.from_file(APP, default_timeout=600)
    for key, value in {**answers.SFT, "compile": "true"}.items():
        app.query_params[key] = value
    closed = peak(looked_at(app))
    fake_port.outcome = big
    at_rest(press(app, BUTTON))
    assert peak(app) == closed and has_answer(app)
    of_another = "Closed form] The plan's dry run is of another loss or layout, so it serves only"
    assert of_another in words(app)
    assert "closed form stays the verdict: Layers ran eagerly" in words(app)


def test_edits_are_counted_from_the_dry_run_and_stay_so_when_they_are_made(fake_port) -> None:
    fake_port.outcome = big
    app = at_rest(press(opened(), BUTTON))
    was = float(peak(app).removesuffix(" GiB"))
    closed = estimate(fake_port.asked[0])
    edit(app, 300)
    now = float(peak(app).removesuffix(" GiB"))
    after = estimate(fake_port.asked[0].changed(prompt_tokens=300))
    assert now - was == pytest.approx((after.device_bytes - closed.device_bytes) / 2**30, abs=0.11)
    alone = f"Closed form: {after.device_bytes / 2**30:.1f} GiB."
    assert "Counted from a dry run] Dry run of the plan before 1 setting changed" in words(app)
    assert alone in words(app) and not has_answer(app)
    # What advice promises is what the page says after the press.
    app.segmented_control(key="advice view").set_value("Edits").run()
    told = next(one.value for one in app.markdown if "peak " in one.value and "→ **" in one.value)
    promised = re.search(r"peak ([0-9.]+ GiB) → \*\*([0-9.]+ GiB)\*\*", told)
    assert promised and promised[1] == peak(app)
    press(app, "apply:0")
    assert peak(app) == promised[2]
