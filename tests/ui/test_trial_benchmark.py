"""The card's benchmark on the Trial page: measured on request, applied on request, taken off."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from benchmarks_of_cards import H100, benchmark
from planner.benchmark.ask import archive
from planner.benchmark.ask.process import BENCHMARKS, BenchmarkFolder, BenchmarkRequest
from planner.benchmark.ask.words import LABELS
from planner.estimate import estimate
from planner.jobs.processes import JobState
from planner.jobs.strict import JobResult
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.plan.presets import presets
from planner.plan.query import to_query
from planner.speeds import speeds_from_text, speeds_to_text
from planner.trial.ask.cards import Card
from planner.ui.trial import page as trial
from planner.units import read_seconds
from ui import opened_pages

PLAN = presets()["grpo-7b@1"].plan.changed(gpu="h100-80gb")
CARDS = (Card("cuda:0", "NVIDIA H100 80GB HBM3"),)


@pytest.fixture(autouse=True)
def _on(own_trials: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_trials.mkdir()
    monkeypatch.setenv("HEADROOM_TRIALS", "1")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "local_cards", lambda: CARDS)


def keep(**changes: Any) -> None:
    folder = BENCHMARKS.place()
    folder.mkdir(exist_ok=True)
    found = benchmark(**changes)
    (folder / f"{found['id']}.json").write_text(json.dumps(found))


def opened(page: str = "trial", plan: Plan = PLAN, **more: str) -> AppTest:
    return opened_pages.opened(page, **to_query(plan), **more)


def words(app: AppTest) -> str:
    kinds = (app.markdown, app.caption, app.warning)
    return "\n".join(str(part.value) for kind in kinds for part in kind).replace("\\", "")


def buttons(app: AppTest) -> set[str | None]:
    return {button.key for button in app.button}


def step_time(app: AppTest) -> str:
    return next(one.value for one in app.metric if one.label == "Step time")


def test_a_machine_without_a_card_has_a_sentence_and_no_button() -> None:
    app = opened()
    assert "a CPU benchmark changes no estimate" in words(app)
    assert not any((key or "").startswith("benchmark-") for key in buttons(app))


def test_measured_stands_beside_published_and_nothing_is_applied_unasked(card: None) -> None:
    keep()
    app = opened()
    (table,) = [one.value for one in app.dataframe if "Efficiency" in one.value]
    row = table[table["Efficiency"] == "Training, of the dense peak"].iloc[0]
    assert row.tolist()[1:] == ["30.0%", "20.0% to 40.0%", "45.0%", "28.0% to 58.0%"]
    assert set(table["Efficiency"]) == set(LABELS.values())
    assert table.iloc[-1]["Measured"] == "0.44 ms"
    assert "CUDA context: " in words(app) and "torch 2.13.0+cu130" in words(app)
    assert "benchmark" not in app.query_params
    assert {"benchmark-start", "benchmark-apply", "benchmark-remove"} <= buttons(app)


def test_applied_it_is_in_the_link_changes_the_times_and_comes_off(card: None) -> None:
    keep()
    published = step_time(opened("plan"))
    app = opened()
    app.button(key="benchmark-apply").click().run()
    assert not app.exception
    assert speeds_from_text("".join(app.query_params["benchmark"])) == H100
    assert "Applied; the message above" in words(app)
    assert "benchmark-apply" not in buttons(app)
    app.switch_page("pages/plan.py").run()
    said = (
        "Times of plans on h100-80gb use 6 values measured on such a GPU (torch 2.13.0+cu130"
    )
    assert said in words(app)
    assert step_time(app) != published
    seconds = estimate(PLAN, H100).step_seconds
    assert seconds is not None and step_time(app) == f"≈ {read_seconds(seconds)}"
    for kind in ("Complete link", "Short link"):
        app.segmented_control(key="link kind").set_value(kind).run()
        (link,) = [str(code.value) for code in app.code if "?" in str(code.value)]
        assert from_query_string(link).benchmark == H100
    app.button(key="benchmark-off").click().run()
    assert "benchmark" not in app.query_params and step_time(app) == published
    assert "Times of plans" not in words(app)


def test_an_opened_link_says_so_on_every_page() -> None:
    for page in ("plan", "scaling", "launch"):
        app = opened(page, benchmark=speeds_to_text(H100))
        assert "The link carries a benchmark of the card" in words(app), page


def test_a_benchmark_of_another_card_is_named_and_not_used() -> None:
    other = replace(H100, gpu="a100-80gb")
    app = opened("plan", benchmark=speeds_to_text(other))
    assert "gpu: the benchmark is of a100-80gb, and the plan has h100-80gb" in words(app)
    assert step_time(app) == step_time(opened("plan"))


def test_a_hostile_link_shows_the_plan_and_what_was_wrong() -> None:
    app = opened("plan", benchmark=speeds_to_text(H100).replace("0.3", "30"))
    assert "benchmark has '30' as a value" in words(app).replace("`", "")
    assert "benchmark" not in app.query_params


def test_another_cards_result_is_shown_and_not_offered(card: None) -> None:
    keep()
    app = opened(plan=PLAN.changed(gpu="a100-80gb"))
    assert "the benchmark is of h100-80gb" in words(app)
    assert "benchmark-apply" not in buttons(app)


def test_removed_it_is_gone(card: None) -> None:
    keep()
    app = opened()
    app.button(key="benchmark-remove").click().run()
    assert archive.kept() == () and "benchmark-remove" not in buttons(app)


def test_pressing_starts_one_and_stop_ends_it(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    stand: list[JobState[BenchmarkRequest, JobResult]] = []
    name = "20261122-120000-abcdef"
    running = JobState[BenchmarkRequest, JobResult](
        folder=BenchmarkFolder(BENCHMARKS.place() / name),
        request=BenchmarkRequest(),
        events=({"name": "layers", "number": 3, "count": 10},),
    )

    def start(request: BenchmarkRequest) -> None:
        asked.append(request.device)
        stand.append(running)

    monkeypatch.setattr(BENCHMARKS, "start", start)
    monkeypatch.setattr(BENCHMARKS, "states", lambda: list(stand))
    app = opened()
    assert asked == []
    app.button(key="benchmark-start").click().run()
    assert asked == ["cuda:0"]
    assert app.button(key="benchmark-start").disabled
    assert f"benchmark-stop-{running.identifier}" in buttons(app)
    stopped = JobResult(id=name, status="stopped", reason="It was stopped.", seconds=1.0)
    stand[:] = [replace(running, result=stopped)]
    app.run()
    assert "It was stopped." in words(app) and "benchmark-dismiss" in buttons(app)


def test_one_that_cannot_start_says_why(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(request: BenchmarkRequest) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(BENCHMARKS, "start", start)
    app = opened()
    app.button(key="benchmark-start").click().run()
    assert any("Permission denied" in str(error.value) for error in app.error)


def test_where_trials_are_off_there_is_nothing_of_the_machine(
    card: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep()
    monkeypatch.setenv("HEADROOM_TRIALS", "0")
    app = opened()
    assert not any((key or "").startswith("benchmark-") for key in buttons(app))
