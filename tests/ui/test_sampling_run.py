"""Trying on the Sampling page: off for strangers, files of the data folder alone, results shown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.jobs.storage import data_folder
from planner.sampling.ask import store
from planner.sampling.ask.process import RUNS
from planner.sampling.ask.request import SamplingRequest, request_of
from planner.sampling.ask.result import SamplingResult
from planner.sampling.ask.store import SamplingFolder
from planner.ui.sampling import trying

APP = str(Path(__file__).parents[2] / "app.py")
PLACE = "place"


@pytest.fixture
def on(own_trials: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_trials.mkdir(exist_ok=True)
    monkeypatch.setenv("HEADROOM_TRIALS", "1")
    model = data_folder() / "models" / "tiny"
    model.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (model / name).write_text("{}")
    (data_folder() / "models" / "pickled").mkdir()
    prompts = data_folder() / "prompts"
    prompts.mkdir()
    (prompts / "mine.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    (prompts / "notes.txt").write_text("no prompts")


def opened() -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600).run()
    app.switch_page("pages/sampling.py").run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def words(app: AppTest) -> str:
    kinds = (app.markdown, app.caption, app.warning, app.error, app.info, app.success)
    return "\n".join(str(part.value) for kind in kinds for part in kind).replace("\\", "")


def kept(request: SamplingRequest, **changes: Any) -> SamplingFolder:
    folder = RUNS.new(request)
    made = {
        "model": "tiny", "identity": "sha256 " + "1" * 64, "prompts_sha256": "0" * 64,
        "prompts": 4, "pooling": "mean hidden states", "width": 8, "dtype": "fp32",
        "model_dtype": "fp32", "prompt_tokens": 512, "neighbours": 2, "index": "exact",
        "lists": 0, "probes": 0, "favour": "rare", "created": "2026-11-22T00:00:00Z",
    }  # fmt: skip
    one = {"place": 3, "text": "the <b>odd</b> one", "distance": 1.25, "weight": 0.5}
    result = {
        "id": folder.identifier, "status": "completed", "request": request.model_dump(),
        "seconds": 12.0, "provenance": made, "measured_peak_bytes": 2**30,
        "predicted_peak_bytes": 2**30, "rarest": [one], "commonest": [{**one, "place": 0}],
        "histogram": {"edges": [0.0, 1.0, 2.0], "counts": [3, 1]},
        "stages": [{"name": "embed", "seconds": 9.0, "predicted_seconds": 10.0}], **changes,
    }  # fmt: skip
    folder.settled(SamplingResult.model_validate_json(json.dumps(result)))
    return folder


REQUEST = request_of(prompts="/data/mine.jsonl", model="/data/tiny")


def test_it_is_off_for_those_who_may_not(own_trials: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_trials.mkdir(exist_ok=True)
    monkeypatch.setenv("HEADROOM_TRIALS", "0")
    kept(REQUEST)
    app = opened()
    assert "Runs are off on this server" in words(app)
    assert "odd" not in words(app)
    assert not [one for one in app.button if (one.key or "").startswith("sampling-run")]


def test_only_files_and_models_of_the_data_folder_are_offered(
    on: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SamplingRequest] = []

    def start(request: SamplingRequest) -> SamplingFolder:
        asked.append(request)
        folder = RUNS.new(request)
        folder.own(os.getpid())
        folder.say("begins", stage="embed", host_bytes=2**30, gpu_bytes=None)
        folder.say("at", stage="embed", done=1, of=2, host_bytes=2**30, gpu_bytes=None)
        return folder

    monkeypatch.setattr(RUNS, "start", start)
    # This process is the folder's owner here, and a stop would end it.
    monkeypatch.setattr(RUNS, "stop", SamplingFolder.ask_to_stop)
    app = opened()
    models = app.selectbox("sampling-run-model")
    assert models.options == ["choose one", "tiny"]  # a folder without safetensors is none
    assert app.selectbox("sampling-run-prompts").options == ["none, use the upload", "mine.jsonl"]
    assert app.button("sampling-run-start").disabled
    models.select("tiny")
    app.selectbox("sampling-run-prompts").select("mine.jsonl").run()
    app.button("sampling-run-start").click().run()
    assert not app.exception
    assert [Path(one.prompts).name for one in asked] == ["mine.jsonl"]
    assert asked[0].model == str(data_folder() / "models" / "tiny")
    stop = [one for one in app.button if (one.key or "").startswith("sampling-run-stop-")]
    assert len(stop) == 1
    stop[0].click().run()
    assert RUNS.all()[0].asked_to_stop()


@pytest.mark.parametrize("name", ["../secret.jsonl", "/etc/passwd", "notes.txt", ""])
def test_no_other_path_is_taken(on: None, name: str) -> None:
    with pytest.raises(ValueError, match="no file of this name"):
        store.prompts_file(name)
    with pytest.raises(ValueError, match="no model of this name"):
        store.model_folder(name or "pickled")


def test_a_result_is_shown_and_what_prompts_say_is_no_markup(on: None) -> None:
    folder = kept(REQUEST)
    app = opened()
    assert "4 weights in 12.0 s" in words(app) and "rare prompts favoured" in words(app)
    tables = [str(table.value) for table in app.dataframe]
    assert any("the <b>odd</b> one" in table for table in tables)
    assert any("Embedding" in table and "10.0" in table for table in tables)
    app.button("sampling-run-forget").click().run()
    assert not folder.path.exists() and "4 weights" not in words(app)


def test_a_run_that_was_ended_can_go_on(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept(REQUEST, status="killed", reason="Its process was killed.")
    resumed: list[str] = []
    monkeypatch.setattr(trying, "resume", lambda one: resumed.append(one.identifier))
    app = opened()
    assert "Its process was killed." in words(app)
    app.button("sampling-run-resume").click().run()
    assert resumed == [folder.identifier]
