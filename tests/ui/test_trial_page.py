"""The Trial page in process, with a stand-in for the process that would run a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planner.plan.query import to_query_string
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.ask.result import OutOfMemory
from planner.trial.history import History
from planner.ui.trial import page as trial
from planner.ui.trial.allowed import allowed
from ui.trial_page import (
    OTHER,
    PLAN,
    PREDICTED,
    START,
    StandIn,
    buttons,
    ended,
    figures,
    looked_at,
    opened,
    press,
    result,
    running,
    standing_in,
    words,
)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return standing_in(monkeypatch)


def test_nothing_starts_until_somebody_presses(stand_in: StandIn) -> None:
    app = opened()
    assert "5 steps, 3 of them measured" in words(app)
    assert "**Limits.** " in words(app) and ", 5.0 min." in words(app)
    assert "No trial of this plan has run" in words(app)
    assert stand_in.asked == [] and not app.button(key=START).disabled


def test_one_press_starts_the_plan_on_the_page(stand_in: StandIn) -> None:
    app = press(opened(), START)
    (asked,) = stand_in.asked
    assert asked.planned() == PLAN and asked.device == "cpu"
    assert app.button(key=START).disabled
    assert "Waiting for the CPU" in words(app)


def test_its_place_in_the_queue_and_its_progress_are_said(stand_in: StandIn) -> None:
    app = press(opened(), START)
    folder = stand_in.folder
    assert folder is not None
    folder.say("queued", ahead=2)
    assert "Waiting for the CPU: 2 trials are before it" in words(looked_at(app))
    folder.say("starting")
    folder.say("measuring", step=2, steps=5)
    assert "measuring, step 2 of 5" in words(looked_at(app))


def test_a_page_opened_anew_finds_the_trial_and_what_it_measured() -> None:
    folder = running(request_of(PLAN))
    folder.say("starting")
    app = opened()
    assert "Running on the CPU" in words(app) and app.button(key=START).disabled
    folder.finish(result(folder.identifier))
    looked_at(app)
    assert "Running on" not in words(app)
    assert "memory is as predicted" in words(app)
    assert not app.button(key=START).disabled


def test_the_trial_of_another_plan_is_said_to_be_that_and_another_can_queue(
    stand_in: StandIn,
) -> None:
    running(request_of(OTHER))
    app = opened()
    assert "(another plan)" in words(app)
    press(app, START)
    assert len(stand_in.asked) == 1


def test_stop_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(trial.TRIALS, "stop", lambda folder: stopped.append(folder.identifier))
    folder = running(request_of(PLAN))
    press(opened(), f"trial-stop-{folder.identifier}")
    assert stopped == [folder.identifier]


def test_measured_stands_beside_predicted_for_every_phase() -> None:
    ended()
    app = opened()
    (table,) = [one.value for one in app.dataframe if "Difference" in one.value]
    assert list(table["Phase"]) == [*PREDICTED]
    assert list(table["Memory, predicted"]) == ["0.98 GiB", "2.0 GiB"]
    assert list(table["Memory, measured"]) == ["0.99 GiB", "2.0 GiB"]
    assert list(table["Difference"]) == ["+1.0%"] * 2
    assert list(table["Time, predicted"]) == ["—"] * 2  # of a GPU, and this is a processor
    assert list(table["Time, measured"]) == ["4.00 s"] * 2
    assert "speed and the memory that a GPU needs beside tensors cannot" in words(app)


def test_a_finished_trial_is_stored_once() -> None:
    folder = ended()
    app = opened()
    looked_at(app)
    opened()
    assert [line.id for line in History().list()] == [folder.identifier]


def test_a_result_is_left_to_its_own_process_while_that_is_there() -> None:
    folder = running(request_of(PLAN))
    folder.finish(result(folder.identifier))
    opened()
    assert History().count() == 0


def test_a_history_out_of_reach_is_said_and_the_result_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended()
    monkeypatch.setenv("HEADROOM_HISTORY_URL", "nonsense")
    app = opened()
    assert "HEADROOM_HISTORY_URL is no URL" in words(app)
    assert "memory is as predicted" in words(app)


def test_a_trial_of_another_plan_is_not_shown_as_this_ones() -> None:
    ended(OTHER)
    assert "No trial of this plan has run" in words(opened())


FITTING = PLAN.changed(micro_batch_size=1)
ENDS: dict[str, tuple[Callable[[], dict[str, Any]], tuple[str, ...]]] = {
    "out of memory": (
        lambda: {
            "out_of_memory": OutOfMemory(
                phase="policy backward",
                asked_bytes=2**30,
                live_bytes=2**31,
                would_fit=to_query_string(OTHER),
                would_fit_words="fewer tokens",
            )
        },
        (
            "Out of memory in policy backward",
            "1.0 GiB more while 2.0 GiB were in use",
            "What would fit, by the dry run: fewer tokens",
        ),
    ),
    "will not fit": (
        lambda: {"out_of_memory": OutOfMemory(phase="building")},
        ("will not fit here, so nothing was run", "choose a smaller model"),
    ),
    "killed": (lambda: {}, ("process was killed", "Run it again")),
    "timed out": (lambda: {}, ("Stopped at the time limit", "Raise the time limit under")),
    "host memory": (lambda: {}, ("ran low on RAM", "Close other programs")),
    "stopped": (lambda: {}, ("Stopped; nothing was measured",)),
    "failed": (lambda: {}, ("The trial failed", "Its output is below")),
}


@pytest.mark.parametrize("status", ENDS)
def test_every_other_end_is_a_sentence_with_what_to_do(status: str) -> None:
    more, expected = ENDS[status]
    ended(status=status, reason="So it was.", measured=None, **more())
    text = words(opened())
    for sentence in (*expected, "So it was."):
        assert sentence in text


def test_the_plan_that_would_fit_opens(stand_in: StandIn) -> None:
    more, _ = ENDS["out of memory"]
    ended(status="out of memory", measured=None, **more())
    app = press(opened(), "trial-fitting")
    press(app, START)
    assert stand_in.asked[0].planned() == OTHER


def test_a_prediction_that_was_too_low_is_no_good_news() -> None:
    ended(measured=figures("trial", 1.2))
    app = opened()
    assert not app.success
    assert "needs more memory than predicted" in words(app)
    assert "up to 20% too low" in words(app)


def test_a_plan_that_no_trial_runs_is_refused_with_the_fix(stand_in: StandIn) -> None:
    app = opened(PLAN.changed(optimizer="adamw-8bit"))
    assert "set “Optimizer” to “AdamW, fused”" in words(app)
    assert app.button(key=START).disabled


def test_a_folder_that_cannot_be_written_is_a_sentence(stand_in: StandIn) -> None:
    stand_in.error = PermissionError(13, "Permission denied")
    app = press(opened(), START)
    assert "cannot start: Permission denied" in words(app) and "HEADROOM_DATA" in words(app)
    stand_in.error = None
    assert "cannot start" not in words(press(app, START))


def test_off_shows_no_button_and_how_the_owner_turns_it_on(monkeypatch: Any) -> None:
    ended()
    monkeypatch.setenv("HEADROOM_TRIALS", "0")
    app = opened()
    assert START not in buttons(app) and not app.dataframe
    assert "HEADROOM_TRIALS=1" in words(app)
    assert not (TRIALS.all()[0].path / "kept").exists()


def test_a_button_from_before_it_was_turned_off_starts_nothing(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened()
    monkeypatch.setenv("HEADROOM_TRIALS", "0")
    press(app, START)
    assert stand_in.asked == []


LOCALLY = {"Host": ["localhost:8501"]}


@pytest.mark.parametrize(
    ("said", "listens", "headers", "expected"),
    [
        ("", "127.0.0.1", LOCALLY, True),
        ("", "127.0.0.1", {"host": ["127.0.0.1"]}, True),
        ("", "::1", {"Host": ["[::1]:8501"]}, True),
        ("", None, LOCALLY, False),
        ("", "0.0.0.0", LOCALLY, False),
        ("", "127.0.0.1", {"Host": ["headroom.example:8501"]}, False),
        ("", "127.0.0.1", {"Host": ["localhost.example"]}, False),
        ("", "127.0.0.1", {"Host": ["localhost", "headroom.example"]}, False),
        ("", "127.0.0.1", {}, False),
        ("", "127.0.0.1", {**LOCALLY, "X-Forwarded-For": ["10.0.0.1"]}, False),
        ("", "127.0.0.1", {**LOCALLY, "x-forwarded-host": [""]}, False),
        ("", "127.0.0.1", {**LOCALLY, "Forwarded": ["for=10.0.0.1"]}, False),
        ("", "127.0.0.1", {**LOCALLY, "Origin": ["http://localhost:8501"]}, True),
        ("", "127.0.0.1", {**LOCALLY, "Origin": ["https://headroom.example"]}, False),
        ("", "127.0.0.1", {**LOCALLY, "Origin": ["http://localhost:9999"]}, False),
        ("", "127.0.0.1", {**LOCALLY, "origin": ["null"]}, False),
        ("1", None, {**LOCALLY, "X-Forwarded-For": ["10.0.0.1"]}, True),
        ("0", "127.0.0.1", LOCALLY, False),
        ("yes", "127.0.0.1", LOCALLY, False),
    ],
)
def test_on_by_default_for_oneself_alone(
    said: str, listens: str | None, headers: dict[str, list[str]], expected: bool
) -> None:
    assert allowed(said, listens, headers) is expected
