"""What a dry run found: sentences, phases beside the closed form, the timeline, the tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence

import streamlit as st

from planner import charts_timeline
from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.document import dry_run_to_json
from planner.plan import Plan
from planner.ui import compute, dry_run_tables
from planner.ui.display import Unit
from planner.ui.messages import plain
from planner.ui.phases import ink
from planner.units import read_seconds

PHASE = "dry-run-phase"
ROW = 35
"""Pixels of a table's row."""
ALIVE_HEIGHT = 10 * ROW + 3
"""The largest tensors; more of them scroll."""
WORDS_HEIGHT = 680
"""Sentences, headings, captions and buttons of an answer, about: more on a telephone."""


def executed_with(found: DryRun) -> None:
    """In the button's place once there is an answer."""
    st.markdown(
        f":material/check: Executed with torch {found.versions['torch']} and transformers "
        f"{found.versions['transformers']} in {read_seconds(found.seconds)}."
    )


def draw(found: DryRun, sentences: Sequence[str], unit: Unit) -> None:
    """The whole answer but its files."""
    st.markdown(f"**{plain(sentences[0])}**")
    st.markdown("\n".join(f"- {plain(text)}" for text in sentences[1:]))
    _comparison(found, unit)
    _timeline(found, unit)
    _alive(found, unit)
    _notes(found)


def expected_height(plan: Plan) -> int:
    """Pixels that the plan's answer will take, about: kept free while it is on its way."""
    rows = (len(compute.footprint(plan).phases) + 1) * ROW
    return rows + charts_timeline.height() + ALIVE_HEIGHT + WORDS_HEIGHT


def _comparison(found: DryRun, unit: Unit) -> None:
    table = dry_run_tables.against_closed_form(found, unit)
    st.dataframe(
        table,
        hide_index=True,
        height=(len(table) + 1) * ROW + 3,
        key="dry-run-table",
        alt="Each phase's requested memory by closed form and by dry run",
        column_config={
            name: st.column_config.TextColumn(alignment="right") for name in table.columns[1:]
        },
    )
    st.caption(
        "What the step asks for at each phase's peak, per GPU, before the allocator's rounding; "
        "the difference is closed form minus dry run. *closed form only*: the training step "
        "does not execute this phase."
    )
    for error in found.errors:
        st.error(plain(error), icon=":material/error:")


def _timeline(found: DryRun, unit: Unit) -> None:
    rows = dry_run_tables.timeline_rows(found, unit)
    if rows.empty:
        return
    st.markdown("**Live memory through one step**")
    st.altair_chart(
        charts_timeline.timeline(
            rows,
            capacity=unit.value(found.footprint.budget_bytes),
            unit=unit.name,
            ink=ink(),
        ),
        key="dry-run-timeline",
        height=charts_timeline.height(),
        alt=_in_words(found, unit),
    )
    st.caption(
        "Tensors of the trainer on this GPU, drawn at the highest instant of each stretch of "
        "events; not kernels' scratch, the CUDA context or what the allocator keeps unused. "
        "Repeated micro-batches and generated tokens are executed as often as it takes to see "
        "their peak."
    )


def _in_words(found: DryRun, unit: Unit) -> str:
    parts = [
        f"{phase.name} {unit.read(phase.requested_bytes)}"
        for phase in found.footprint.phases
        if phase.source == "dry run"
    ]
    return f"Live memory through one step; highest in each phase: {', '.join(parts)}."


def _alive(found: DryRun, unit: Unit) -> None:
    ran = [phase.name for phase in dry_run_tables.executed(found)]
    if not ran:
        return
    st.markdown("**Alive at the peak**")
    if st.session_state.get(PHASE) not in ran:
        st.session_state[PHASE] = ran[0]
    chosen = st.selectbox(
        "Phase of the dry run",
        [one["phase"] for one in found.phases if one["phase"] in ran],
        key=PHASE,
        format_func=lambda name: f"{name} (the worst)" if name == ran[0] else name,
        help="The largest tensors on the GPU at this phase's highest instant. Equal tensors "
        "are one row; those of repeated layers carry one layer's name.",
    )
    phase = next(one for one in found.phases if one["phase"] == chosen)
    table = dry_run_tables.alive_table(phase, unit)
    where = f" in {phase['module']}" if phase["module"] else ""
    st.caption(f"At {plain(phase['op'])}{plain(where)}; largest first.")
    st.dataframe(
        table,
        hide_index=True,
        height=ALIVE_HEIGHT,
        key="dry-run-alive",
        alt="The largest tensors alive at the phase's peak",
        column_config={
            table.columns[0]: st.column_config.NumberColumn(format="%.2f"),
        }
        if len(table)
        else None,
    )


def _notes(found: DryRun) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    lines = [
        *found.notes,
        f"Error to expect: {found.footprint.error.source}.",
        f"Libraries: {versions}.",
    ]
    with st.expander("What this dry run did not see", icon=":material/notes:", key="dry-run-notes"):
        st.markdown("\n".join(f"- {plain(line)}" for line in lines))


def download(found: DryRun) -> None:
    """The answer in the shape of every rung of evidence."""
    st.download_button(
        "Dry run as JSON",
        data=lambda: json.dumps(dry_run_to_json(found), indent=2),
        file_name="headroom-dry-run.json",
        mime="application/json",
        on_click="ignore",
        icon=":material/download:",
        key="dry-run-json",
    )
