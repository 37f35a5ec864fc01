"""On Sampling: really compute the weights of a person's own prompts, on this machine.

Allowed as trials are. Prompts are uploads or files of the data folder, models are the data
folder's: no field of a page names a path, and no link starts anything. A run belongs to the
machine; whoever may run trials sees it, stops it, and goes on with it.

Session keys: ``sampling run error`` why the last press started nothing. ``sampling-run-…`` are
widgets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from planner.charts import sampling_run as charts
from planner.jobs.processes import JobState
from planner.jobs.storage import data_folder
from planner.sampling.ask import store
from planner.sampling.ask.process import RUNS, resume
from planner.sampling.ask.prompts import scan
from planner.sampling.ask.request import PLAN_FIELDS, SamplingRequest, request_of
from planner.sampling.ask.result import Example, SamplingResult
from planner.sampling.ask.samplers import samplers
from planner.sampling.ask.setup import predicted
from planner.sampling.ask.store import WEIGHTS
from planner.sampling.ask.words import HEADER, rows, stage_name
from planner.sampling.plan import SamplingPlan
from planner.ui import uploads
from planner.ui.elements import doubt, download, ink, named_choice, row, text_table
from planner.ui.state import session
from planner.ui.trial import controls
from planner.ui.trial.allowed import SETTING, permitted
from planner.ui.trial.page import local_cards
from planner.units import read_bytes, read_seconds
from planner.wording.display import plain

WHAT = (
    "Embeds your prompts, finds their nearest neighbours and writes sampling weights for a "
    "trainer. A run first measures this machine for ten seconds. Closing the page does not stop "
    "the run."
)
OFF = (
    "**Runs are off on this server.** They use its CPU and memory. To allow them, start the app "
    f"with `{SETTING}=1`."
)
ALONE = "On your own machine: `python -m planner sampling run FILE.jsonl --model FOLDER`."
UPLOAD = "sampling-run-upload"
State = JobState[SamplingRequest, SamplingResult]
SHOWN = 20
"""Runs in the list of those that are over."""


def section(plan: SamplingPlan) -> None:
    """The whole section, below the plan's answer."""
    st.subheader("Try it on your prompts", anchor="try")
    st.caption(WHAT)
    if not permitted():
        st.info(OFF, icon=":material/lock:")
        st.caption(ALONE)
        return
    controls.watched(_panel, _running, _choices(plan))
    over = [state for state in RUNS.states() if not state.running][:SHOWN]
    if over:
        _over(over)


def _choices(plan: SamplingPlan) -> dict[str, Any] | None:
    """What a run would be asked, without its prompts' path; None where something is missing."""
    models, files = store.offered_models(), store.offered_prompts()
    left, right = st.columns(2)
    with left:
        uploads.uploader(
            f"Prompts: JSON lines, each with a prompt, up to {uploads.LARGEST_MB} MB",
            UPLOAD,
            type=["jsonl"],
        )
    with right:
        file = _named("Prompts in the data folder", files, "prompts", "none, use the upload")
        nothing = "choose one" if models else "none found"
        model = _named("Model in the data folder", models, "model", nothing)
        device = "cpu"
        if local_cards():
            names = {card.device: f"{card.name} ({card.device})" for card in local_cards()}
            device = named_choice("Device", {**names, "cpu": "CPU"}, "sampling-run-device")
    if not models:
        st.caption(
            f"A model is a folder in `{plain(str(data_folder() / 'models'))}` with config.json, "
            "tokenizer.json and safetensors; larger files of prompts go to the folder `prompts` "
            "beside `models`."
        )
    if plan.assembly != "in-place":
        st.caption("Runs always write embeddings in place.")
    if not model or not (st.session_state.get(UPLOAD) or file):
        return None
    own = {field: getattr(plan, field) for field in PLAN_FIELDS}
    if device == "cpu" and own["model_dtype"] == "fp16":
        own["model_dtype"] = "fp32"
    return {**own, "model": model, "file": file, "device": device}


def _named(label: str, names: Sequence[str], key: str, none: str) -> str:
    return named_choice(label, {"": none, **{name: name for name in names}}, f"sampling-run-{key}")


def _running() -> list[State]:
    return [state for state in RUNS.states() if state.running]


def _panel(running: list[State], choices: dict[str, Any] | None) -> None:
    with row("sampling-run-controls"):
        st.button(
            "Run",
            key="sampling-run-start",
            icon=":material/play_arrow:",
            type="primary",
            disabled=choices is None,
            on_click=controls.start,
            args=("sampling run", _begin, choices),
            help="Runs this plan with the prompts and the model chosen above.",
        )
    controls.refused("sampling run")
    for state in running:
        _progress(state)


def _progress(state: State) -> None:
    with st.container(border=True):
        with row(f"sampling-run-{state.identifier}"):
            name = state.identifier
            stages = [event["stage"] for event in state.events if "stage" in event]
            words = f"{stage_name(stages[-1]) if stages else 'Waiting'}, {state.seconds:.0f} s"
            done, of = state.latest("done"), state.latest("of")
            controls.progress("sampling-run", RUNS, name, done, of, words)
        estimate = predicted(state.folder.path)
        if estimate is not None:
            times = [
                f"{one.label.lower()} {read_seconds(one.seconds)}"
                for one in estimate.stages
                if one.seconds is not None and one.duration and not one.duration.assumed
            ]
            most = f"{session.read(estimate.host_bytes)} of host RAM"
            st.caption(plain("Predicted: " + ", ".join([most, *times]) + "."))
        _memory(state.events, f"sampling-run-memory-{state.identifier}")


def _memory(events: Sequence[Mapping[str, Any]], key: str) -> None:
    """Memory as it goes on; nothing before anybody has looked."""
    unit = session.unit()
    times = [event["at"] for event in events if isinstance(event.get("at"), (int, float))]
    points = [
        {"seconds": event["at"] - times[0], "memory": unit.value(event[field]), "kind": kind}
        for event in events
        for field, kind in (("host_bytes", "host RAM"), ("gpu_bytes", "GPU memory"))
        if event.get("name") in ("begins", "at") and isinstance(event.get(field), int)
    ]
    began = [
        {"seconds": event["at"] - times[0], "stage": stage_name(event.get("stage"))}
        for event in events
        if event.get("name") == "begins"
    ]
    if points:
        st.altair_chart(
            charts.memory(pd.DataFrame(points), pd.DataFrame(began), unit.name, ink()),
            key=key,
            alt="Host RAM and GPU memory over the time of the run.",
        )


def _begin(choices: dict[str, Any]) -> None:
    given = dict(choices)
    file = given.pop("file")
    try:
        upload = uploads.sent(UPLOAD)
        path = _kept(upload.getvalue()) if upload is not None else store.prompts_file(file)
        model = store.model_folder(given["model"])
        RUNS.start(request_of(**{**given, "prompts": path, "model": model}))
    except ValueError as error:
        st.session_state["sampling run error"] = str(error)


def _kept(content: bytes) -> str:
    """An upload as a file of the data folder, once all its lines are read.

    Raises:
        ValueError: naming the lines that cannot be.
    """
    folder = data_folder() / "prompts"
    folder.mkdir(parents=True, exist_ok=True)
    path: Path = folder / f"upload-{hashlib.sha256(content).hexdigest()[:12]}.jsonl"
    if not path.exists():
        fresh = path.with_suffix(".part")
        fresh.write_bytes(content)
        try:
            scan(fresh)
        except ValueError:
            fresh.unlink()
            raise
        fresh.replace(path)
    return str(path)


def _resume(identifier: str) -> None:
    try:
        controls.on_folder(RUNS, resume, identifier)
    except (OSError, ValueError) as error:
        st.session_state["sampling run error"] = str(error)


def _over(states: list[State]) -> None:
    """One of the runs that are over, the newest unless another is chosen."""
    names = {state.identifier: _title(state) for state in states}
    chosen = named_choice("Runs on this machine", names, "sampling-run-shown")
    state = next((one for one in states if one.identifier == chosen), states[0])
    assert state.result is not None
    if state.result.status == "completed":
        _result(state.result)
    else:
        doubt(state.result.reason or f"The run is {state.result.status}.")
    _stages(state.result)
    with row("sampling-run-over"):
        if state.result.status != "completed":
            st.button(
                "Resume",
                key="sampling-run-resume",
                icon=":material/resume:",
                on_click=_resume,
                args=(state.identifier,),
                help="Continues where it stopped.",
            )
        st.button(
            "Delete",
            key="sampling-run-forget",
            icon=":material/delete:",
            on_click=controls.on_folder,
            args=(RUNS, RUNS.forget, state.identifier),
            help="Deletes this run with its embeddings and weights.",
        )


def _title(state: State) -> str:
    assert state.result is not None
    name = Path(state.request.prompts).name
    return f"{state.identifier[:15]} · {plain(name)} · {state.result.status}"


def _result(result: SamplingResult) -> None:
    made = result.provenance
    assert made is not None
    recall = "" if result.recall is None else f" Recall {result.recall:.1%}."
    st.success(
        f"**{made.prompts:,} weights in {read_seconds(result.seconds)}**, {made.favour} prompts "
        f"favoured.{recall} Peak host RAM {_read(result.measured_peak_bytes)}, predicted "
        f"{_read(result.predicted_peak_bytes)}.",
        icon=":material/check_circle:",
    )
    for note in result.notes:
        doubt(note)
    found = result.histogram
    if found is not None:
        bins = zip(found.edges, found.edges[1:], found.counts, strict=False)
        st.altair_chart(
            charts.densities(pd.DataFrame(bins, columns=["low", "high", "prompts"]), ink()),
            key="sampling-run-densities",
            alt="Number of prompts by distance from their nearest neighbours.",
        )
    left, right = st.columns(2)
    for place, name, examples in (
        (left, "Rarest", result.rarest),
        (right, "Most common", result.commonest),
    ):
        with place:
            st.markdown(f"**{name} prompts**")
            alt = f"{name} prompts with their mean distances and weights"
            key = f"sampling-run-{name.lower()}"
            text_table(_examples(examples), key, alt, right=3, most=8)
    with row("sampling-run-files"):
        folder = RUNS.find(result.id)
        if folder is not None and (folder.path / WEIGHTS).is_file():
            read = partial((folder.path / WEIGHTS).read_bytes)
            download("Weights (Parquet)", read, WEIGHTS, "sampling-run-weights")
        for sampler in samplers():
            key = f"sampling-run-{sampler.file_name}"
            download(f"Sampler for {sampler.label}", sampler.text, sampler.file_name, key)
        text = result.model_dump_json(indent=2)
        download("Result (JSON)", text, f"sampling-{result.id}.json", "sampling-run-json")
    st.caption(
        plain(
            f"Weights made with {made.model.rpartition('/')[2]} ({made.identity[:24]}…), "
            f"{made.pooling}, {made.neighbours} neighbours, {made.index}, {made.created[:10]}. The "
            "samplers reject these weights if the prompts differ."
        )
    )


def _read(size: int | None) -> str:
    return "unknown" if size is None else read_bytes(size)


def _examples(examples: Sequence[Example]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (f"{one.distance:.4f}", f"{one.weight:.2e}", " ".join(one.text.split())[:300])
            for one in examples
        ],
        columns=["Distance", "Weight", "Prompt"],
    )


def _stages(result: SamplingResult) -> None:
    if not result.stages:
        return
    names = ["Stage", "Seconds", "Predicted seconds", "RAM before", "RAM peak", "Predicted peak",
             "RAM after", "GPU before", "GPU peak", "GPU after"]  # fmt: skip
    assert len(names) == len(HEADER)
    table = pd.DataFrame(rows(result), columns=names)
    table = table.loc[:, [name for name in names if (table[name] != "–").any()]]
    text_table(table, "sampling-run-stages", "Stages as measured, beside what was predicted")
