"""The Trial page for its tests: opened in process, with nothing that would run a trial."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.plan import Plan
from planner.plan.query import to_query, to_query_string
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.footprints import FootprintFigures, PhaseFigures
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import TrialRequest, request_of
from planner.trial.ask.result import Device, TrialResult
from planner.ui.trial import page as trial

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
    folder = TRIALS.new(request)
    folder.own(os.getpid())
    return folder


def standing_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Trials are on, and nothing runs."""
    found = StandIn()
    monkeypatch.setattr(trial.TRIALS, "start", found)
    monkeypatch.setenv("HEADROOM_TRIALS", "1")
    return found


def opened(plan: Plan = PLAN) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600)
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
    folder = TRIALS.new(request_of(plan))
    folder.finish(result(folder.identifier, plan=to_query_string(plan), **changes))
    return folder
