"""The Sampling page: which mode and whether it fits, then figures, charts, terms, the link."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
import pandas as pd
import streamlit as st

from planner.charts import sampling as charts
from planner.problem import Problem
from planner.sampling.answer import to_json
from planner.sampling.estimate import SamplingEstimate, Stage, curve, estimate
from planner.sampling.plan import SamplingPlan
from planner.term import Term
from planner.ui.elements import TONES, bullets, button, download, folded, ink, tell, wall
from planner.ui.plan.numbers import explain
from planner.ui.sampling import state, trying
from planner.ui.sampling.texts import LABELS, spoken
from planner.ui.state import session
from planner.units import read_seconds
from planner.values.dtypes import BYTES
from planner.wording.display import UNKNOWN, plain, put_in

FEWEST, MOST, POINTS = 28_000, 28_000_000, 61
"""Prompts of the curve's two ends."""


@lru_cache(maxsize=256)
def estimated(plan: SamplingPlan) -> SamplingEstimate:
    """The estimate of a plan, kept."""
    return estimate(plan)


@lru_cache(maxsize=64)
def _curve(plan: SamplingPlan) -> pd.DataFrame:
    prompts = np.unique(np.geomspace(FEWEST, MOST, POINTS).round().astype(np.int64))
    rows = [
        pd.DataFrame({"prompts": prompts, "mode": mode, "bytes": sizes})
        for mode, sizes in curve(plan, prompts).items()
    ]
    return pd.concat(rows, ignore_index=True)


def page() -> None:
    """Everything below the title."""
    _about_the_link()
    plan, problems = state.plan()
    if plan is None:
        _impossible(problems)
        return
    found = estimated(plan)
    _verdict(found)
    _figures(found)
    if found.warnings:
        bullets(map(spoken, found.warnings))
    _stages(found)
    _growth(found)
    _terms(found)
    _share(found)
    trying.section(plan)


def _about_the_link() -> None:
    reading = state.reading()
    if reading is None:
        return
    with st.container(border=True):
        lead = "The rest is used." if reading.plan is not None else "The inputs stay as they were."
        st.markdown(f":material/link_off: **Part of this link could not be used.** {lead}")
        bullets(spoken(problem.sentence) for problem in reading.problems)
        st.button("Dismiss", on_click=state.dismiss, key="dismiss-sampling-reading")


def _impossible(problems: tuple[Problem, ...]) -> None:
    st.error("**These settings do not work together.**", icon=":material/block:")
    for problem in problems:
        named = LABELS.get(problem.field, problem.field)
        st.markdown(f"- **{named}**: {plain(spoken(problem.sentence))}")


def _verdict(found: SamplingEstimate) -> None:
    mode, other = found.advice.mode, found.advice.plan
    room, _, rest = found.advice.reason.partition(", ")
    why = f", {rest}" if room in found.sentence else f". {found.advice.reason}"
    recommended = f"Recommended: {mode or 'no mode'}{why}"
    tell(TONES.get(found.word, "neutral"), spoken(f"{found.sentence}. {recommended}"))
    if other is not None and other != found.plan:
        button(f"Use {mode}", "use-recommended", "check", state.set_plan, other)


def _figures(found: SamplingEstimate) -> None:
    plan = found.plan
    disk = found.disk
    limit = found.online_prompts
    wall(
        (
            "Host RAM",
            session.read(found.host_bytes),
            f"at {found.worst.label.lower()}",
            "Peak anonymous memory of the process. Memory-mapped files do not count: the system "
            "can drop them.",
        ),
        (
            "GPU",
            session.read(found.gpu_bytes) if plan.device != "cpu" else "none",
            "model and one batch",
            "Embeddings stay in host RAM.",
        ),
        (
            "Time",
            UNKNOWN if found.seconds is None else f"≈ {read_seconds(found.seconds)}",
            "embed and search",
            "The time assumes rates, listed below for each stage. A run first measures your "
            "machine's rates.",
        ),
        (
            "Disk",
            session.read(found.disk_bytes),
            f"fp16: {session.read(disk.half.bytes)}",
            "What this mode writes: embeddings, neighbours, weights. Embeddings take "
            f"{session.read(disk.raw.bytes)} in fp32, or {session.read(disk.compressed.bytes)} "
            f"compressed in {plan.dtype}, as planned.",
        ),
        (
            "Online works up to",
            UNKNOWN if limit is None else f"{limit:,}",
            "prompts",
            "The most prompts that fit in host RAM when embeddings are computed at training start.",
        ),
        (
            "Recall",
            "exact" if plan.index != "faiss-ivf" else "not measured",
            "of neighbours",
            "Exact and flat indexes compare all pairs. An IVF index misses some neighbours; a run "
            "measures how many.",
        ),
        a_row=3,
        width=150,
    )


def _stages(found: SamplingEstimate) -> None:
    st.subheader("Memory by stage", anchor="stages")
    unit = session.unit()
    plan = found.plan
    capacity = unit.value(plan.host_ram) if plan.host_ram else None
    st.caption(
        "Stages in the order in which they run."
        + (f" Host RAM: {session.read(plan.host_ram)}." if plan.host_ram else "")
    )
    st.altair_chart(
        charts.stage_bars(
            _rows(found, host=True), capacity=capacity, name="host RAM", unit=unit.name, ink=ink()
        ),
        key="sampling-host",
        height=charts.bars_height(len(found.stages)),
        alt=_alt(found, "Host RAM"),
    )
    if found.gpu_bytes and plan.device != "cpu":
        st.altair_chart(
            charts.stage_bars(
                _rows(found, host=False), capacity=None, name="GPU memory", unit=unit.name,
                ink=ink(),
            ),
            key="sampling-gpu",
            height=charts.bars_height(sum(1 for one in found.stages if one.gpu_bytes)),
            alt="GPU memory of each stage.",
        )  # fmt: skip


def _rows(found: SamplingEstimate, *, host: bool) -> pd.DataFrame:
    unit, rows = session.unit(), []
    for stage in found.stages:
        total = stage.host_bytes if host else stage.gpu_bytes or 0
        sums: dict[str, int] = {}
        for term in stage.terms:
            if term.host == host:
                sums[term.role] = sums.get(term.role, 0) + int(term.bytes)
        rows += [
            {
                "stage": stage.label,
                "part": part,
                "memory": unit.value(size),
                "total": unit.value(total),
                "time": _time(stage),
            }
            for part, size in sums.items()
        ]
    return pd.DataFrame(rows)


def _time(stage: Stage) -> str:
    return UNKNOWN if stage.seconds is None else f"≈ {read_seconds(stage.seconds)}"


def _alt(found: SamplingEstimate, what: str) -> str:
    parts = ", ".join(f"{one.label} {session.read(one.host_bytes)}" for one in found.stages)
    return f"{what} of each stage: {parts}."


def _growth(found: SamplingEstimate) -> None:
    st.subheader("From 28 thousand to 28 million prompts", anchor="growth")
    unit, plan = session.unit(), found.plan
    rows = _curve(plan)
    shown = rows.assign(
        memory=rows["bytes"] / unit.size_bytes, chosen=rows["mode"] == plan.mode
    ).drop(columns="bytes")
    st.altair_chart(
        charts.growth(
            shown,
            capacity=unit.value(plan.host_ram) if plan.host_ram else None,
            here=plan.prompts,
            unit=unit.name,
            ink=ink(),
        ),
        key="sampling-growth",
        height=charts.CURVE + 110,
        alt="Host RAM of each mode by number of prompts.",
    )
    if plan.index == "faiss-ivf":
        st.caption(
            "Streaming is shown with a flat index unless streaming is this plan's mode, because an "
            "IVF index keeps every vector in memory."
        )


def _terms(found: SamplingEstimate) -> None:
    st.subheader("Breakdown", anchor="terms")
    labels = {stage.label: stage for stage in found.stages}
    if st.session_state.get("sampling stage") not in labels:
        st.session_state["sampling stage"] = found.worst.label
    chosen = st.selectbox(
        "Stage",
        list(labels),
        key="sampling stage",
        format_func=lambda name: f"{name} (the peak)" if name == found.worst.label else name,
    )
    stage = labels[chosen]
    duration = stage.duration
    if duration is not None:
        with folded(f"**{_time(stage)}** · time", f"sampling:{stage.name}:time") as opened:
            if opened:
                put = put_in(duration.formula, duration.inputs)
                value = f"{float(duration.seconds):,.4g} seconds"
                st.code(f"{duration.formula}\n= {put}\n= {value}", language=None, wrap_lines=True)
                st.caption(f"Source: {duration.source}.")
    for term in sorted(stage.terms, key=lambda one: -int(one.bytes)):
        _term(f"sampling:{stage.name}", term)
    st.caption("On disk")
    for term in found.disk:
        _term("sampling:disk", term)
    width = BYTES[found.plan.dtype] * found.dimensions
    st.caption(
        f"One embedding has {found.dimensions:,} values and takes {width:,} bytes when stored."
    )


def _term(place: str, term: Term) -> None:
    where = "" if term.host or term.role == "disk" else " · GPU"
    title = f"**{session.read(int(term.bytes))}** · {term.name} · {term.role}{where}"
    with folded(title, f"{place}:{term.role}:{term.name}") as opened:
        if opened:
            explain(term)


def _share(found: SamplingEstimate) -> None:
    st.subheader("Share", anchor="share")
    st.code(state.link(state.query()), language=None, wrap_lines=True)
    download(
        "Answer as JSON",
        lambda: json.dumps(to_json(found), indent=2),
        "headroom-sampling.json",
        "download-sampling-json",
    )
