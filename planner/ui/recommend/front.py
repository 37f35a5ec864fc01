"""Dollars against hours: the plans that no other beats in both, each to be opened as the plan.

Session keys, set here only: ``front place`` is the chosen point, ``front clicked`` counts choices
elsewhere than in the table, each of which begins a new one that shows it.
"""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from planner.charts import front as drawn
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.facts import facts_of
from planner.search import Found
from planner.ui import compute
from planner.ui.elements import ROW, ink, numbers
from planner.ui.plan.applied import from_to
from planner.ui.recommend.take import apply_button, pin_button
from planner.units import read_seconds, read_usd

PLACE, CLICKED = "front place", "front clicked"
COLUMNS = {
    "hours": "Run, h",
    "low_hours": "at least, h",
    "high_hours": "at most, h",
    "usd": "Run, $",
    "low_usd": "at least, $",
    "high_usd": "at most, $",
}


def front(plan: Plan, found: Found) -> None:
    """The chart, the table beneath it, and the chosen point's plan."""
    if len(found.front) < 2:
        return
    st.subheader("Dollars against hours", anchor="front")
    table = rows(found)
    place = st.session_state.get(PLACE, 0)
    place = st.session_state[PLACE] = place if place < len(table) else 0
    st.vega_lite_chart(
        drawn.front(table, place, ink=ink()),
        key="front-chart",
        on_select=partial(_clicked, table),
        selection_mode=drawn.CHOSEN,
        width="stretch",
        height=drawn.HEIGHT,
        alt="Dollars and hours of each plan that no other beats in both; the table below has "
        "every value.",
    )
    st.caption(
        "No plan that was judged is cheaper and faster than one of these. Lines through a point: "
        "where published runs lay around such estimates; both grow and shrink together, so the "
        "order of two plans is surer than either's figure."
    )
    shown = table.rename(columns={"name": "GPUs", "word": "Verdict", **COLUMNS})
    key = f"front-table-{st.session_state.get(CLICKED, 0)}"
    st.dataframe(
        shown[["GPUs", "Verdict", *COLUMNS.values(), "Changes"]],
        hide_index=True,
        key=key,
        height=(min(len(shown), 10) + 1) * ROW + 3,
        alt="Plans that no other beats in dollars and hours, with intervals",
        on_select=partial(_listed, key),
        selection_mode="single-row-required",
        selection_default={"selection": {"rows": [place]}},
        column_config=numbers(COLUMNS.values(), "%.3g"),
    )
    made = found.plan.changed(**found.front[place].changes)
    changes = differences(found.plan.model_dump(), made.model_dump())
    with st.container(border=True, key="front-plan"):
        st.selectbox(
            "Plan of the front",
            range(len(table)),
            key=PLACE,
            format_func=lambda one: _called(table, one),
            on_change=_named,
            help="A click on a point or on a row of the table chooses as well.",
        )
        st.markdown(f"{from_to(changes) or 'Your plan as it is'}.")
        with st.container(horizontal=True):
            apply_button(made, plan, "take-front", "Open as plan")
            pin_button(made, table["name"][place], "pin-front")


def rows(found: Found) -> pd.DataFrame:
    """A row per point, as :func:`planner.charts.front.front` draws them."""
    part = compute.footprint(found.plan).verdict.incomplete
    return pd.DataFrame(
        {
            "place": place,
            "name": f"{one.gpus:,} × {facts_of(found.plan.changed(**one.changes)).gpu.name}",
            "word": "incomplete" if part else one.word,
            "hours": one.hours,
            "low_hours": one.low_hours,
            "high_hours": one.high_hours,
            "usd": one.usd,
            "low_usd": one.low_usd,
            "high_usd": one.high_usd,
            "Changes": len(one.changes),
        }
        for place, one in enumerate(found.front)
    )


def _clicked(table: pd.DataFrame) -> None:
    """A click on a point chooses its row."""
    found = st.session_state["front-chart"].selection.get(drawn.CHOSEN)
    if found and 0 <= int(found[0]["place"]) < len(table):
        st.session_state[PLACE] = int(found[0]["place"])
        _named()


def _called(table: pd.DataFrame, place: int) -> str:
    one = table.iloc[place]
    run = read_seconds(one["hours"] * 3600)
    return f"{one['name']}: {run}, {read_usd(one['usd'])} ({one['word']})"


def _named() -> None:
    """The list, which does without a pointer; the table is made anew to show it."""
    st.session_state[CLICKED] = st.session_state.get(CLICKED, 0) + 1


def _listed(key: str) -> None:
    chosen = st.session_state[key].selection.rows
    if chosen:
        st.session_state[PLACE] = int(chosen[0])
