"""My plans: kept under a name and opened in the sidebar; measured, renamed, deleted on Compare.

Session keys, set here only: ``kept said``, what became of the last press; ``kept-…``, the widgets.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pandas as pd
import streamlit as st

from planner.plan import Plan
from planner.plan.labels import whole_subject
from planner.plan.pin import NAME_CHARACTERS, Pinned
from planner.trial.ask.result import TrialResult
from planner.trial.history import HistoryError
from planner.trial.history.plans import Kept, KeptPlans
from planner.ui import compute
from planner.ui.compare import pins
from planner.ui.elements import button, doubt, row, text_table
from planner.ui.state import session
from planner.ui.trial.allowed import permitted
from planner.ui.trial.words import LEVELS
from planner.wording.display import plain

NAME, SAID = "kept-name", "kept said"
LISTED = 12
"""More of them are on Compare alone."""
ROWS = 10


def shelf(plan: Plan | None) -> None:
    """In the sidebar: keep the plan on the page, open another."""
    st.text_input("Name for this plan", key=NAME, max_chars=NAME_CHARACTERS)
    button("Keep this plan", "keep-plan", "bookmark_add", change, "keep", plan, disabled=not plan)
    for one in _found()[:LISTED]:
        if one.plan is not None:
            more = {"type": "tertiary", "help": f"Kept {one.created[:10]}"}
            button(plain(one.name), f"kept:{one.id}", "", session.open_plan, one.plan, **more)
    st.caption("Rename or delete your plans on Compare, which also shows their trials.")


def section() -> None:
    """On Compare: the table, and what can be done with the chosen plan."""
    if not permitted():
        return
    st.subheader("My plans", anchor="my-plans")
    found = _found()
    if not found:
        st.caption("Keep a plan under a name by “My plans” in the sidebar; it is listed here.")
        return
    measured = KeptPlans().trials(found)
    event = text_table(
        pd.DataFrame([_row(one, measured.get(one.link)) for one in found]),
        table_key(found),
        "Plans that were named and kept, newest first",
        right=3,
        most=ROWS,
        on_select="rerun",
        selection_mode="single-row",
    )
    if chosen := event.selection.rows:
        _chosen(found[chosen[0]])
    else:
        st.caption("Choose a line to open, pin, rename or delete its plan.")


def table_key(found: list[Kept]) -> str:
    """The table's key: another list is another table, where nothing is chosen by its place."""
    return f"my-plans-{crc32(repr(found).encode())}"


def _found() -> list[Kept]:
    """The kept plans, after what became of the last press; none where the store cannot be read."""
    if said := st.session_state.pop(SAID, ""):
        st.caption(plain(said))
    try:
        return KeptPlans().list()
    except HistoryError as error:
        doubt(error)
        return []


def _row(one: Kept, trial: TrialResult | None) -> dict[str, str]:
    cells = {"Name": one.name, "Kept": one.created[:10]}
    if one.plan is None:
        return {**cells, "Plan": "cannot be read", "Planned": "", "Measured": ""}
    footprint = compute.footprint(one.plan)
    peak = f"{session.read(footprint.device_bytes)}, {footprint.verdict.said}"
    return {
        **cells,
        "Plan": whole_subject(one.plan),
        "Planned": peak,
        "Measured": _measured(trial) if trial and trial.measured else "",
    }


def _measured(trial: TrialResult) -> str:
    """The trial's peak, and what its own dry run had predicted of the same bytes."""
    level = LEVELS[trial.device.kind]
    sides = [side.phases for side in (trial.measured, trial.predicted) if side]
    peaks = [session.read(max(getattr(one, level) or 0 for one in phases)) for phases in sides]
    return f"{', predicted '.join(peaks)} ({level.partition('_')[0]})"


def _chosen(one: Kept) -> None:
    key = f"{NAME}-{one.id}"
    with row("kept-controls"):
        if one.plan is not None:
            button("Open as plan", "kept-open", "open_in_new", session.open_plan, one.plan)
            button("Pin", "kept-pin", "keep", pins.pin, [Pinned(one.plan, one.name)])
        st.text_input(
            "Name of the plan",
            one.name,
            key=key,
            max_chars=NAME_CHARACTERS,
            on_change=change,
            args=("rename", one.id, key),
        )
        with st.popover("Delete", icon=":material/delete:"):
            st.markdown(f"{plain(one.name)} is deleted for good.")
            button("Yes, delete", "kept-delete", "", change, "delete", one.id)


def change(what: str, of: Any, key: str = NAME) -> None:
    """Keep a plan, or rename or delete a kept one; what became of it is said once."""
    if not permitted():
        return
    kept, name = KeptPlans(), st.session_state.get(key, "")
    does = {"keep": lambda: kept.keep(name, of), "rename": lambda: kept.rename(of, name)}
    try:
        does.get(what, lambda: kept.delete(of))()
        st.session_state[SAID] = f"Kept as {name.strip()}." if what == "keep" else ""
    except HistoryError as error:
        st.session_state[SAID] = str(error)
