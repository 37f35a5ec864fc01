"""A step's phases: their peaks against the card, their time, and both as a table."""

from __future__ import annotations

import streamlit as st

from planner.charts import bars
from planner.footprint import Footprint
from planner.ui.elements import ink, numbers
from planner.ui.plan import seconds
from planner.ui.state import session
from planner.ui.tables import bar_rows, phase_name, phase_table


def chart(footprint: Footprint) -> None:
    """The phases' memory and time as bars, and both as a table."""
    st.subheader("Phases of a step", anchor="phases")
    memory, time, listed = st.tabs(
        [":material/memory: Memory", ":material/schedule: Time", ":material/table: Table"],
        on_change=session.acted,
        key="phases-view",
    )
    views = ((time, seconds.bars), (listed, _table), (memory, _bars))
    place, show = next((view for view in views if view[0].open), views[-1])
    with place:
        show(footprint)


def _table(footprint: Footprint) -> None:
    unit = session.unit()
    rows = phase_table(footprint, unit)
    sizes = [name for name in rows.columns if name.endswith(unit.name)]
    share = st.column_config.ProgressColumn(min_value=0, max_value=1.5, format="percent")
    st.dataframe(
        rows,
        hide_index=True,
        key="phase-table",
        alt="Peak memory and seconds of each phase",
        column_config={
            "Share of card": share,
            **numbers(["Seconds", "At least", "At most"], "%.3g"),
            **numbers(sizes, "%.2f"),
        },
    )


def _bars(footprint: Footprint) -> None:
    unit = session.unit()
    capacity = unit.value(footprint.budget_bytes)
    st.altair_chart(
        bars.phase_bars(
            bar_rows(footprint, unit), capacity=capacity, unit=unit.name, ink=ink()
        ),
        key="phase-chart",
        height=bars.height(len(footprint.phases)),
        alt=alt_text(footprint),
    )


def alt_text(footprint: Footprint) -> str:
    """The chart in words."""
    parts = [f"{phase_name(one)} {session.read(one.device_bytes)}" for one in footprint.phases]
    card = session.read(footprint.budget_bytes)
    return f"Peak memory of each phase against {card} of the card: {', '.join(parts)}."
