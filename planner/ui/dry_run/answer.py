"""What a dry run found: sentences, phases beside the closed form, the timeline, the tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence

import streamlit as st

from planner.charts import timeline
from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.document import dry_run_to_json
from planner.plan import Plan
from planner.ui import compute
from planner.ui.dry_run import tables
from planner.ui.elements import ROW, bullets, download, ink, numbers, text_table
from planner.ui.state import session
from planner.units import read_seconds
from planner.wording.display import plain

PHASE = "dry-run-phase"
ALIVE_HEIGHT = 10 * ROW + 3
"""The largest tensors; more of them scroll."""
WORDS_HEIGHT = 680
"""Sentences, headings, captions and buttons of an answer, about: more on a telephone."""


def executed_with(found: DryRun) -> None:
    """In the button's place once there is an answer."""
    st.markdown(
        f":material/check: Ran {found.standing.ran} with torch {found.versions['torch']} and "
        f"transformers {found.versions['transformers']} in {read_seconds(found.seconds)}."
    )


def draw(found: DryRun, sentences: Sequence[str]) -> None:
    """The whole answer but its files."""
    st.markdown(f"**{plain(sentences[0])}**")
    bullets(sentences[1:])
    text_table(
        tables.against_closed_form(found, session.unit()),
        "dry-run-table",
        "Each phase's requested and GPU memory by closed form and by dry run",
    )
    st.caption(
        "Requested: bytes that tensors request at each phase's peak, per GPU; the difference is "
        "closed form minus dry run. GPU: memory that the driver reports, including the allocator's "
        "rounding and cache, the CUDA context and vLLM. *closed form only*: the training step does "
        "not run this phase."
    )
    for error in found.errors:
        st.error(plain(error), icon=":material/error:")
    _timeline(found)
    _alive(found)
    with st.expander("What did not run", icon=":material/notes:", key="dry-run-notes"):
        versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
        error = f"Error of the peak: {found.footprint.error.source.rstrip('.')}."
        bullets([*found.notes, error, f"Libraries: {versions}."])


def expected_height(plan: Plan) -> int:
    """Pixels that the plan's answer will take, about: kept free while it is on its way."""
    rows = (len(compute.footprint(plan).phases) + 1) * ROW
    return rows + timeline.height() + ALIVE_HEIGHT + WORDS_HEIGHT


def _timeline(found: DryRun) -> None:
    unit = session.unit()
    rows = tables.timeline_rows(found, unit)
    if rows.empty:
        return
    st.markdown("**Live memory through one step**")
    st.altair_chart(
        timeline.timeline(
            rows,
            capacity=unit.value(found.footprint.budget_bytes),
            unit=unit.name,
            ink=ink(),
        ),
        key="dry-run-timeline",
        height=timeline.height(),
        alt=_in_words(found),
    )
    st.caption(
        "The trainer's tensors on this GPU, without kernel workspaces, CUDA context and cached "
        "memory. Each stretch of events is drawn at its highest instant; repeated micro-batches "
        "run only until their peak is seen."
    )


def _in_words(found: DryRun) -> str:
    phases = [phase for phase in found.footprint.phases if phase.source == "dry run"]
    parts = [f"{phase.name} {session.read(phase.requested_bytes)}" for phase in phases]
    return f"Live memory through one step. Peak of each phase: {', '.join(parts)}."


def _alive(found: DryRun) -> None:
    ran = [phase.name for phase in tables.executed(found)]
    if not ran:
        return
    st.markdown("**Alive at the peak**")
    if st.session_state.get(PHASE) not in ran:
        st.session_state[PHASE] = ran[0]
    phases = {one["phase"]: one for one in found.phases if one["phase"] in ran}
    chosen = st.selectbox(
        "Phase of the dry run",
        list(phases),
        key=PHASE,
        format_func=lambda name: f"{name} (the worst)" if name == ran[0] else name,
        help="The largest tensors on the GPU at this phase's peak. Equal tensors share a row; "
        "tensors of repeated layers are named after one of the layers.",
    )
    phase = phases[chosen]
    table = tables.alive_table(phase, session.unit())
    where = f" in {phase['module']}" if phase["module"] else ""
    st.caption(f"At {plain(phase['op'])}{plain(where)}; largest first.")
    st.dataframe(
        table,
        hide_index=True,
        height=ALIVE_HEIGHT,
        key="dry-run-alive",
        alt="The largest tensors alive at the phase's peak",
        column_config=numbers(table.columns[:1], "%.2f"),
    )


def save(found: DryRun) -> None:
    """The answer in the shape of every rung of evidence."""
    download(
        "Dry run as JSON",
        lambda: json.dumps(dry_run_to_json(found), indent=2),
        "headroom-dry-run.json",
        "dry-run-json",
    )
