"""A step's phases: their peaks against the card, their time, and both as a table; one is chosen.

Session keys, set here only: ``phase`` is the name of the chosen phase, ``phase by hand`` is there
once somebody chose it, by a click on the chart or in the list (until then it is the worst one), and
``phase listed`` counts choices from the list, each of which begins a new chart: a browser says
nothing of a click on what was clicked last.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from planner.charts import bars
from planner.charts.sent import sent
from planner.footprint import Footprint, Phase
from planner.ui.elements import alike, card_share_column, ink, numbers
from planner.ui.plan import seconds
from planner.ui.state import session
from planner.ui.tables import bar_parts, bar_peaks, phase_name, phase_table

CHART, SECONDS = "phase-chart", "seconds-chart"
LISTED = "phase listed"


def chart(footprint: Footprint) -> None:
    """The phases' memory and time as bars of one height and order, and both as a table."""
    memory, time, listed = st.tabs(
        [":material/memory: Memory", ":material/schedule: Time", ":material/table: Table"],
        on_change="rerun",
        key="phases-view",
    )
    views = ((time, _seconds), (listed, _table), (memory, _bars))
    place, show = next((view for view in views if view[0].open), views[-1])
    with place:
        show(footprint)


def chosen(footprint: Footprint) -> Phase:
    """The phase whose terms and advice are shown: the worst one until another is chosen."""
    phases = {phase_name(phase): phase for phase in footprint.phases}
    own = phases.get(st.session_state.get("phase", ""))
    if own is None:
        st.session_state.pop("phase by hand", None)
    return own if own is not None and by_hand() else footprint.worst


def by_hand() -> bool:
    """Whether somebody chose the phase; otherwise it is the worst, whichever that is."""
    return "phase by hand" in st.session_state


def choice(footprint: Footprint) -> Phase:
    """The chart's title, and the list to choose a phase from, which does without a pointer."""
    title, listed = st.columns(2, vertical_alignment="center")
    title.subheader("Phases of a step", anchor="phases")
    worst, now = phase_name(footprint.worst), phase_name(chosen(footprint))
    names = [phase_name(phase) for phase in footprint.phases]
    # A list that is new on the page gets it as its default: a value set through the state alone
    # may come too late for it, and the first phase would look chosen.
    if st.session_state.get("phase", now) != now:
        st.session_state["phase"] = now
    listed.selectbox(
        "Phase",
        names,
        index=names.index(now),
        key="phase",
        label_visibility="collapsed",
        on_change=_chosen,
        format_func=lambda name: f"{name} (peak)" if name == worst else name,
        help="Breakdown and advice are of this phase. You can also click a phase's bar.",
    )
    return chosen(footprint)


def _chosen() -> None:
    """From now on the page stays at the chosen phase instead of following the worst one."""
    st.session_state["phase by hand"] = True
    st.session_state[LISTED] = st.session_state.get(LISTED, 0) + 1


def _clicked(key: str) -> None:
    """A click on a row chooses its phase; a second one there, the worst one is followed again."""
    found = st.session_state[key].selection.get(bars.CHOSEN)
    if found:
        st.session_state["phase"] = found[0]["phase"]
        st.session_state["phase by hand"] = True
    else:
        st.session_state.pop("phase by hand", None)


def _table(footprint: Footprint) -> None:
    unit = session.unit()
    rows = phase_table(footprint, unit)
    sizes = [name for name in rows.columns if name.endswith(unit.name)]
    st.dataframe(
        rows,
        hide_index=True,
        height=bars.height(len(rows)),
        key="phase-table",
        alt="Peak memory and seconds of each phase",
        column_config={
            "Share of GPU": card_share_column(),
            **alike(rows, ["Seconds", "At least", "At most"]),
            **numbers(sizes, "%.1f"),
        },
    )


def _bars(footprint: Footprint) -> None:
    unit = session.unit()
    spec = bars.phase_bars(
        bar_parts(footprint, unit),
        bar_peaks(footprint, unit),
        capacity=unit.value(footprint.budget_bytes),
        unit=unit.name,
        ink=ink(),
        chosen=phase_name(chosen(footprint)),
    )
    _clickable(spec, CHART, alt_text(footprint), footprint)


def _seconds(footprint: Footprint) -> None:
    found = seconds.bars(footprint, phase_name(chosen(footprint)))
    if found is None:
        with st.container(height=bars.height(len(footprint.phases)), border=False):
            st.info(seconds.NO_TIME)
        return
    _clickable(found[0], SECONDS, found[1], footprint)


def _clickable(spec: dict[str, Any], name: str, alt: str, footprint: Footprint) -> None:
    key = f"{name}-{st.session_state.get(LISTED, 0)}"
    st.vega_lite_chart(
        sent(spec),
        key=key,
        on_select=partial(_clicked, key),
        selection_mode=bars.CHOSEN,
        height=bars.height(len(footprint.phases)),
        alt=alt,
    )


def alt_text(footprint: Footprint) -> str:
    """The chart in words."""
    parts = [f"{phase_name(one)} {session.read(one.device_bytes)}" for one in footprint.phases]
    card = session.read(footprint.budget_bytes)
    pool = "" if footprint.pool is None else " vLLM's KV cache is drawn apart, dashed."
    return f"Peak memory of each phase against the GPU's {card}: {', '.join(parts)}.{pool}"
