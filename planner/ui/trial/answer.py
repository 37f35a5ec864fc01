"""What a trial measured: a verdict, its reasons, and every phase beside its prediction."""

from __future__ import annotations

import streamlit as st

from planner.footprint import Verdict
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.trial.ask.result import TrialResult, result_json
from planner.trial.history import History, HistoryError
from planner.trial.history.intake import keep_all
from planner.ui.elements import bullets, doubt, download, row, tell, text_table
from planner.ui.state import session
from planner.ui.trial import found, words
from planner.units import read_count, read_seconds

ALLOCATIONS = {
    "cpu": ("json", "ui.perfetto.dev"),
    "cuda": ("pickle", "pytorch.org/memory_viz"),
}
"""How a device's allocations are kept, and where to look at them."""
MEANING = {
    "cpu": "Memory is what the step requests at each phase's peak; time is measured on this CPU "
    "and has no prediction.",
    "cuda": "Memory is what PyTorch's allocator has reserved at each phase's peak; time is "
    "predicted by the estimate, and measured with device events.",
}


def newest(plan: Plan, plans: Verdict) -> None:
    """The plan's last trial, if there is one; and results that nobody has stored are stored."""
    try:
        keep_all(History())
    except HistoryError as error:
        doubt(error)
    result = found.newest_of(plan)
    if result is None:
        st.caption("No trial of this plan has run on this machine yet.")
        return
    st.subheader("What the last trial of this plan measured", anchor="measured")
    draw(result, plans)


def draw(result: TrialResult, plans: Verdict, key: str = "trial") -> None:
    """One result, whole. ``key`` tells several on one page apart."""
    told = words.words(result, session.unit(), plans)
    tell(told.tone, told.verdict)
    if told.reasons:
        bullets(told.reasons)
    if result.measured is not None and result.measured.phases:
        alt = "Each phase's memory and time, predicted and measured"
        text_table(words.table(result, session.unit()), f"{key}-table", alt)
        st.caption(
            f"{MEANING[result.device.kind]} The difference is measured beside predicted: + is "
            "more than predicted."
        )
    _ways_out(result, key)
    _notes(result, key)


def _ways_out(result: TrialResult, key: str) -> None:
    ended = result.out_of_memory
    name = f"headroom-trial-{result.id}"
    with row(f"{key}-files"):
        if ended is not None and ended.would_fit:
            st.button(
                "Open the plan that would fit",
                key=f"{key}-fitting",
                icon=":material/subdirectory_arrow_right:",
                on_click=_open,
                args=(ended.would_fit,),
            )
        download("Trial as JSON", result_json(result), f"{name}.json", f"{key}-json")
        file = found.allocations_of(result.id)
        if file is not None:
            suffix, look_at = ALLOCATIONS[result.device.kind]
            download(
                "Allocations",
                file.read_bytes,
                f"{name}.{suffix}",
                f"{key}-allocations",
                help=f"Open it at {look_at}.",
            )


def _open(link: str) -> None:
    plan = from_query_string(link).plan
    if plan is not None:
        session.open_plan(plan)


def _notes(result: TrialResult, key: str) -> None:
    versions = result.environment.versions if result.environment else {}
    lines = [
        f"Trial {result.id} of {result.created} took {read_seconds(result.seconds)} in all on "
        f"{result.where}: {read_count(result.warm_up, 'step')} of warm-up, {result.steps} "
        f"measured, lengths {result.lengths}, weights {result.weights}.",
        *result.notes,
    ]
    if versions:
        named = ", ".join(f"{name} {value}" for name, value in versions.items())
        lines.append(f"Versions: {named}.")
    with st.expander("How it was measured", icon=":material/notes:", key=f"{key}-notes"):
        bullets(lines)
        if result.stderr_tail and result.status != "completed":
            st.code(result.stderr_tail, language=None, wrap_lines=True)
