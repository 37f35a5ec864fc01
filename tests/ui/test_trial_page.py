"""The Trial page in process, with a stand-in for the process that would run a trial."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.link import to_query, to_query_string
from planner.plan import Plan
from planner.trial.figures import FootprintFigures, PhaseFigures
from planner.trial.folders import TrialFolder, folders, new_folder
from planner.trial.history import History
from planner.trial.request import SNAPSHOT, TrialRequest, request_of
from planner.trial.result import Device, OutOfMemory, TrialResult
from planner.ui import trial, trial_inputs
from planner.ui.trial_allowed import allowed

APP = str(Path(__file__).parents[2] / "app.py")
PLAN = Plan(
    model="Qwen/Qwen2.5-0.5B",
    method="sft",
    framework="plain",
    gpus=1,
    responses_per_prompt=1,
    rollout="none",
    reference="none",
)
OTHER = PLAN.changed(prompt_tokens=PLAN.prompt_tokens + 1)
PREDICTED = {"policy forward": 1000 * 2**20, "policy backward": 2000 * 2**20}
START = "trial-start"


class StandIn:
    """In place of ``process.start``: a trial's folder that this process owns, and nothing runs."""

    def __init__(self) -> None:
        self.asked: list[TrialRequest] = []
        self.folder: TrialFolder | None = None
        self.error: OSError | None = None

    def __call__(self, request: TrialRequest) -> TrialFolder:
        if self.error is not None:
            raise self.error
        self.asked.append(request)
        self.folder = running(request)
        return self.folder


def running(request: TrialRequest) -> TrialFolder:
    folder = new_folder(request)
    folder.own(os.getpid())
    return folder


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    found = StandIn()
    monkeypatch.setattr(trial.process, "start", found)
    monkeypatch.setenv("HEADROOM_TRIALS", "1")
    return found


def opened(plan: Plan = PLAN) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    for key, value in to_query(plan).items():
        app.query_params[key] = value
    app.run()
    app.switch_page("pages/trial.py")
    return looked_at(app)


def looked_at(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def buttons(app: AppTest) -> set[str]:
    return {str(button.key) for button in app.button}


def words(app: AppTest) -> str:
    shown = (app.markdown, app.caption, app.info, app.success, app.warning, app.error)
    text = "\n".join(str(part.value) for kind in shown for part in kind)
    progress = [str(part.proto.text) for part in app.get("progress")]
    return "\n".join((text, *progress)).replace("\\", "")


def figures(source: Any, factor: float = 1.0, seconds: float | None = None) -> FootprintFigures:
    return FootprintFigures(
        source=source,
        plan={},
        phases=tuple(
            PhaseFigures(
                name=name, source=source, requested_bytes=round(size * factor), seconds=seconds
            )
            for name, size in PREDICTED.items()
        ),
    )


def result(identifier: str, **changes: Any) -> TrialResult:
    given: dict[str, Any] = {
        "id": identifier,
        "status": "completed",
        "created": "2026-01-31T12:00:00Z",
        "seconds": 12.0,
        "plan": to_query_string(PLAN),
        "device": Device(kind="cpu", name="A processor"),
        "predicted": figures("dry run"),
        "measured": figures("trial", 1.01, 4.0),
    }
    return TrialResult(**{**given, **changes})


def ended(plan: Plan = PLAN, **changes: Any) -> TrialFolder:
    """A trial whose process is over and has stored nothing."""
    folder = new_folder(request_of(plan))
    folder.finish(result(folder.identifier, plan=to_query_string(plan), **changes))
    return folder


def test_nothing_starts_until_somebody_presses(stand_in: StandIn) -> None:
    app = opened()
    assert "5 steps, 3 of them measured" in words(app)
    assert "At most" in words(app) and "when it is ended" in words(app)
    assert "No trial of this plan has run" in words(app)
    assert stand_in.asked == [] and not app.button(key=START).disabled


def test_one_press_starts_the_plan_on_the_page(stand_in: StandIn) -> None:
    app = press(opened(), START)
    (asked,) = stand_in.asked
    assert asked.planned() == PLAN and asked.device == "cpu"
    assert app.button(key=START).disabled
    assert "Waiting for the processor" in words(app)


def test_choices_of_how_it_runs_are_asked_for(stand_in: StandIn) -> None:
    app = opened()
    app.number_input(key="trial-steps").set_value(7)
    app.number_input(key="trial-minutes").set_value(2)
    app.selectbox(key="trial-lengths").set_value("random")
    press(looked_at(app), START)
    (asked,) = stand_in.asked
    assert (asked.steps, asked.limit_seconds, asked.lengths) == (7, 120.0, "random")


def test_a_cap_and_depths_are_asked_for_and_said(stand_in: StandIn) -> None:
    app = opened()
    app.number_input(key="trial-cap").set_value(24.0)
    app.selectbox(key="trial-layers").set_value("two")
    looked_at(app)
    app.number_input(key="trial-depth-1").set_value(6)
    assert "of which 2 and 6 are run" in words(looked_at(app))
    press(app, START)
    (asked,) = stand_in.asked
    assert (asked.cap_bytes, asked.depths) == (24 * 2**30, (2, 6))
    app.selectbox(key="trial-layers").set_value("all")
    assert "fewer where they do not fit" not in words(looked_at(app))


def test_a_sharded_plan_runs_as_one_rank_or_as_all_of_them(stand_in: StandIn) -> None:
    assert not opened().get("trial-processes")
    app = opened(PLAN.changed(gpus=2, sharding="fsdp2"))
    assert "as rank 0 of 2" in words(app)
    app.selectbox(key="trial-processes").set_value(2)
    assert "as 2 processes" in words(looked_at(app))
    press(app, START)
    assert stand_in.asked[0].processes == 2
    keys = {box.key for box in opened(PLAN.changed(gpus=16, sharding="fsdp2")).selectbox}
    assert "trial-processes" not in keys  # more than run together on a processor


def test_a_model_folder_is_for_somebody_on_their_own_machine(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = "trial-model-folder"
    assert folder not in {box.key for box in opened().text_input}
    monkeypatch.setattr(trial_inputs, "own_machine", lambda: True)
    app = opened()
    app.text_input(key=folder).set_value(str(tmp_path / "nowhere"))
    said = words(looked_at(app))
    assert "model_folder" in said and "is no folder on this machine" in said
    assert START not in buttons(app)
    app.text_input(key=folder).set_value(f" {tmp_path} ")
    press(looked_at(app), START)
    assert stand_in.asked[0].model_folder == str(tmp_path.resolve())


def test_allocations_are_kept_when_asked_for_and_offered_with_the_answer(
    stand_in: StandIn,
) -> None:
    app = opened()
    app.toggle(key="trial-snapshot").set_value(True)
    press(looked_at(app), START)
    folder = stand_in.folder
    assert folder is not None and stand_in.asked[0].snapshot == SNAPSHOT
    (folder.path / SNAPSHOT).write_text("{}")
    folder.finish(result(folder.identifier))
    assert "trial-allocations" in {one.key for one in looked_at(app).get("download_button")}
    (folder.path / SNAPSHOT).unlink()
    assert "trial-allocations" not in {one.key for one in looked_at(app).get("download_button")}


def test_its_place_in_the_queue_and_its_progress_are_said(stand_in: StandIn) -> None:
    app = press(opened(), START)
    folder = stand_in.folder
    assert folder is not None
    folder.say("queued", ahead=2)
    assert "Waiting for the processor: 2 trials are before it" in words(looked_at(app))
    folder.say("starting")
    folder.say("measuring", step=2, steps=5)
    assert "measuring, step 2 of 5" in words(looked_at(app))


def test_a_page_opened_anew_finds_the_trial_and_what_it_measured() -> None:
    folder = running(request_of(PLAN))
    folder.say("starting")
    app = opened()
    assert "Running on the processor" in words(app) and app.button(key=START).disabled
    folder.finish(result(folder.identifier))
    looked_at(app)
    assert "Running on" not in words(app)
    assert "its memory is as predicted" in words(app)
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
    monkeypatch.setattr(trial.process, "stop", lambda folder: stopped.append(folder.identifier))
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
    assert list(table["Difference"]) == ["+1.0 %"] * 2
    assert list(table["Time, predicted"]) == ["—"] * 2  # of a GPU, and this is a processor
    assert list(table["Time, measured"]) == ["4 s"] * 2
    assert "says nothing of a GPU's time" in words(app)


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
    assert "its memory is as predicted" in words(app)


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
    "killed": (lambda: {}, ("killed before it was over", "Run it again")),
    "timed out": (lambda: {}, ("ended at its time limit", "more time under How it runs")),
    "host memory": (lambda: {}, ("own memory ran low", "Close other programs")),
    "stopped": (lambda: {}, ("Stopped; nothing was measured",)),
    "failed": (lambda: {}, ("The trial failed", "What its process said is below")),
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
    assert "takes more memory than predicted" in words(app)
    assert "20% too low at most" in words(app)


def test_a_plan_that_no_trial_runs_is_refused_with_the_fix(stand_in: StandIn) -> None:
    app = opened(PLAN.changed(optimizer="adamw-8bit"))
    assert "set optimizer to adamw-fused" in words(app)
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
    assert not (folders()[0].path / "kept").exists()


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
        ("1", None, {**LOCALLY, "X-Forwarded-For": ["10.0.0.1"]}, True),
        ("0", "127.0.0.1", LOCALLY, False),
        ("yes", "127.0.0.1", LOCALLY, False),
    ],
)
def test_on_by_default_for_oneself_alone(
    said: str, listens: str | None, headers: dict[str, list[str]], expected: bool
) -> None:
    assert allowed(said, listens, headers) is expected
