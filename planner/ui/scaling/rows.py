"""The table of an axis: every plan that is drawn, one of which opens; and the file of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from planner.plan import Plan, try_plan
from planner.sweeps.grid import followed
from planner.ui.elements import ROW, alike, download, numbers, share_column
from planner.ui.scaling.axes import CARD, TITLES
from planner.ui.state import session
from planner.ui.tables import as_csv
from planner.wording.display import say

SHOWN = 7
"""Rows that are in sight; more scroll."""


def table(rows: pd.DataFrame, field: str, named: Mapping[str, Plan]) -> None:
    """The rows of the plans; the one that is chosen opens as the plan on the page.

    ``rows`` are of sweeps, with ``plan`` (a key of ``named``, the page's own first), ``limit``
    and, where the field has names that are no values, ``called``.
    """
    unit = session.unit()
    sizes = {
        f"Peak, {unit.name}": "device_bytes",
        f"Training only, {unit.name}": "trainer_bytes",
        f"vLLM reserves, {unit.name}": "engine_bytes",
        f"Host RAM, {unit.name}": "host_bytes",
    }
    figures = {
        "Step, s": "step_seconds",
        "at least": "low_step_seconds",
        "at most": "high_step_seconds",
        "Run, $": "usd_run",
        "$ at least": "low_usd_run",
        "$ at most": "high_usd_run",
        "Tokens/s per GPU": "tokens_per_second_per_gpu",
        "GPU-hours of step": "gpu_hours_per_step",
        "GPU-hours of run": "gpu_hours_run",
        "Step, $": "usd_per_step",
    }
    shares = {"MFU of the update": "mfu", "HFU of the update": "hfu"}
    peak, *others = ((name, _of(rows, column) / unit.size_bytes) for name, column in sizes.items())
    shown = pd.DataFrame(
        {
            **({"Plan": rows["plan"]} if rows["plan"].nunique() > 1 else {}),
            TITLES[field]: rows["called"] if "called" in rows else rows[field],
            "Verdict": rows["verdict"].astype(object).where(rows["valid"], "impossible"),
            **({"Limit": rows["limit"]} if rows["limit"].any() else {}),
            peak[0]: peak[1],
            "Worst phase": rows["worst_phase"].astype(object),
            **{name: _of(rows, column) for name, column in figures.items()},
            **{name: 100 * _of(rows, column) for name, column in shares.items()},
            **dict(others),
        }
    )
    found = st.dataframe(
        shown,
        hide_index=True,
        height=(min(len(shown), SHOWN) + 1) * ROW + 3,
        key=f"curve-rows {field}",
        alt=f"Every plan along {TITLES[field]}; select a row to apply it",
        on_select="rerun",
        selection_mode="single-row",
        column_config={
            "Verdict": st.column_config.TextColumn(width=110),
            "Limit": st.column_config.TextColumn(width=170),
            **numbers(sizes, "%.1f"),
            **alike(shown, figures),
            **dict.fromkeys(shares, share_column()),
        },
    )
    chosen = [place for place in found.selection.rows if place < len(rows)]
    with st.container(horizontal=True, vertical_alignment="center"):
        _apply(rows, field, named, chosen[0] if chosen else None)
        name = f"headroom-{field}.csv"
        download("Table as CSV", lambda: as_csv(rows), name, "download-csv")


def changed(plan: Plan, field: str, value: Any) -> dict[str, Any]:
    """What opens a value of an axis: the field, and those that move with it in a sweep.

    Bytes that were typed in are another card's.
    """
    return {**followed(plan, {field: value}), **({"gpu_bytes": 0} if field == CARD else {})}


def _of(rows: pd.DataFrame, column: str) -> pd.Series[Any]:
    return rows[column].astype(float).where(rows["valid"])


def _apply(rows: pd.DataFrame, field: str, named: Mapping[str, Plan], place: int | None) -> None:
    """The button that makes a row the plan on the page; says what to do while none is chosen."""
    if place is None or not rows["valid"].iloc[place]:
        idle = "Select a row to apply it"
        st.button(idle, icon=":material/check:", key="apply row", disabled=True)
        return
    row = rows.iloc[place]
    value = row[field] if isinstance(row[field], str) else int(row[field])
    called = row["called"] if "called" in rows else value
    st.button(
        f"Apply: {TITLES[field]} {say(called)}",
        icon=":material/check:",
        key="apply row",
        on_click=_open,
        args=(named[row["plan"]], changed(named[row["plan"]], field, value)),
    )


def _open(plan: Plan, changes: Mapping[str, Any]) -> None:
    """Change the plan on the page, or go on with another one that is changed."""
    if plan == session.draft().plan:
        session.apply(changes)
    elif other := try_plan({**plan.model_dump(), **changes})[0]:
        session.open_plan(other)
