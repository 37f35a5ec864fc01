"""What a trial measured: a verdict, its reasons, and every phase beside its prediction."""

from __future__ import annotations

import streamlit as st

from planner.footprint import Verdict
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.trial.ask.result import TrialResult, result_json
from planner.trial.history import History, HistoryError
from planner.ui import session, trial_found, trial_words
from planner.ui.display import Unit
from planner.ui.messages import plain
from planner.ui.trial_words import Words
from planner.units import read_seconds

ROW = 35
"""Pixels of a table's row."""
KEPT_AS = {"cpu": "json", "cuda": "pickle"}
LOOK_AT = {
    "cpu": "Open it at ui.perfetto.dev.",
    "cuda": "Open it at pytorch.org/memory_viz.",
}
MEANING = {
    "cpu": "Memory is what the step asks for at each phase's peak; time is of this processor, "
    "and nobody predicts that.",
    "cuda": "Memory is what PyTorch's allocator holds at each phase's peak; time is predicted by "
    "the estimate, and measured with device events.",
}


def newest(plan: Plan, unit: Unit, plans: Verdict) -> None:
    """The plan's last trial, if there is one; and results that nobody has stored are stored."""
    try:
        trial_found.store(History())
    except HistoryError as error:
        st.warning(plain(str(error)), icon=":material/info:")
    result = trial_found.newest_of(plan)
    if result is None:
        st.caption("No trial of this plan has run on this machine yet.")
        return
    st.subheader("What the last trial of this plan measured", anchor="measured")
    draw(result, unit, plans)


def draw(result: TrialResult, unit: Unit, plans: Verdict, key: str = "trial") -> None:
    """One result, whole. ``key`` tells several on one page apart."""
    _verdict(trial_words.words(result, unit, plans))
    if result.measured is not None and result.measured.phases:
        rows = trial_words.table(result, unit)
        st.dataframe(
            rows,
            hide_index=True,
            height=(len(rows) + 1) * ROW + 3,
            key=f"{key}-table",
            alt="Each phase's memory and time, predicted and measured",
            column_config={
                name: st.column_config.TextColumn(alignment="right") for name in rows.columns[1:]
            },
        )
        st.caption(
            f"{MEANING[result.device.kind]} The difference is measured beside predicted: + is "
            "more than predicted."
        )
    _ways_out(result, key)
    _notes(result, key)


def _verdict(found: Words) -> None:
    text = f"**{plain(found.verdict)}**"
    if found.tone == "good":
        st.success(text, icon=":material/check_circle:")
    elif found.tone == "doubt":
        st.warning(text, icon=":material/warning:")
    elif found.tone == "bad":
        st.error(text, icon=":material/cancel:")
    else:
        st.info(text, icon=":material/info:")
    if found.reasons:
        st.markdown("\n".join(f"- {plain(text)}" for text in found.reasons))


def _ways_out(result: TrialResult, key: str) -> None:
    ended = result.out_of_memory
    with st.container(horizontal=True, vertical_alignment="center", key=f"{key}-files"):
        if ended is not None and ended.would_fit:
            st.button(
                "Open the plan that would fit",
                key=f"{key}-fitting",
                icon=":material/subdirectory_arrow_right:",
                on_click=_open,
                args=(ended.would_fit,),
            )
        st.download_button(
            "Trial as JSON",
            data=result_json(result),
            file_name=f"headroom-trial-{result.id}.json",
            mime="application/json",
            on_click="ignore",
            icon=":material/download:",
            key=f"{key}-json",
        )
        file = trial_found.allocations_of(result.id)
        if file is not None:
            st.download_button(
                "Allocations",
                data=file.read_bytes,
                file_name=f"headroom-trial-{result.id}.{KEPT_AS[result.device.kind]}",
                on_click="ignore",
                icon=":material/download:",
                key=f"{key}-allocations",
                help=LOOK_AT[result.device.kind],
            )


def _open(link: str) -> None:
    plan = from_query_string(link).plan
    if plan is not None:
        session.open_plan(plan)


def _notes(result: TrialResult, key: str) -> None:
    versions = result.environment.versions if result.environment else {}
    lines = [
        f"Trial {result.id} of {result.created}, {read_seconds(result.seconds)} in all, on "
        f"{result.where}: {result.warm_up} steps of warm-up, {result.steps} measured, "
        f"lengths {result.lengths}, weights {result.weights}.",
        *result.notes,
    ]
    if versions:
        named = ", ".join(f"{name} {value}" for name, value in versions.items())
        lines.append(f"Versions: {named}.")
    with st.expander("How it was measured", icon=":material/notes:", key=f"{key}-notes"):
        st.markdown("\n".join(f"- {plain(line)}" for line in lines))
        if result.stderr_tail and result.status != "completed":
            st.code(result.stderr_tail, language=None)
