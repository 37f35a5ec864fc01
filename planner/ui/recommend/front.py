"""The Pareto front of cost and time: each of its plans can be opened as the plan.

Session key, set here only: ``front place`` is the chosen point, by a click or by the list.
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
from planner.ui.plan.suggested import from_to
from planner.ui.recommend.take import apply_button, pin_button
from planner.units import read_seconds, read_usd

PLACE = "front place"
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
    st.subheader("Cost vs. time", anchor="front")
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
        alt="Cost and time of each plan on the Pareto front; the table below has every value.",
    )
    st.caption(
        f"{found.knee} Pareto front: no estimated plan is both cheaper and faster than one of "
        "these. Whiskers: error seen on published runs. Errors of the plans are correlated, so "
        "trust the ranking more than the numbers."
    )
    shown = table.rename(columns={"name": "GPUs", "word": "Verdict", **COLUMNS})
    st.dataframe(
        shown[["GPUs", "Verdict", *COLUMNS.values(), "Changes"]],
        hide_index=True,
        key="front-table",
        height=(min(len(shown), 10) + 1) * ROW + 3,
        alt="Plans on the Pareto front of cost and time, with intervals",
        column_config=numbers(COLUMNS.values(), "%.3g"),
    )
    made = found.plan.changed(**found.front[place].changes)
    changes = differences(found.plan.model_dump(), made.model_dump())
    with st.container(border=True, key="front-plan"):
        st.selectbox(
            "Plan on the Pareto front",
            range(len(table)),
            key=PLACE,
            format_func=lambda one: _called(table, one),
            help="You can also click a point of the chart.",
        )
        st.markdown(f"{from_to(changes) or 'Your plan, unchanged'}.")
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


def _called(table: pd.DataFrame, place: int) -> str:
    one = table.iloc[place]
    run = read_seconds(one["hours"] * 3600)
    return f"{one['name']}: {run}, {read_usd(one['usd'])} ({one['word']})"
