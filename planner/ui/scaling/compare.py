"""Plan B: pinned from the present plan or pasted as a link, kept in the address bar."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.labels import whole_subject
from planner.plan.link import from_query_string
from planner.plan.query import to_query_string
from planner.ui import compute
from planner.ui.elements import button, said
from planner.ui.state import address, session
from planner.units import read_count
from planner.wording.display import say
from planner.wording.fields import short_label


def second_plan(plan: Plan) -> Plan | None:
    """The controls of plan B, and plan B if there is one."""
    other = address.plan_b()
    with st.container(border=True):
        if other is None:
            st.markdown(
                "**Compare with a second plan.** Pin this one as B, then change A; or paste a link."
            )
        else:
            _describe(plan, other)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            button("Pin this plan as B", "pin", "keep", _pin, plan)
            if other is not None:
                button("Swap A and B", "swap", "swap_horiz", _swap, plan, other)
                button("Remove B", "unpin", "close", _set, "")
            st.text_input(
                "Link of plan B",
                key="pasted b",
                placeholder="paste a link of this app",
                label_visibility="collapsed",
                on_change=_paste,
            )
        if "b error" in st.session_state:
            st.warning(said(st.session_state["b error"]), icon=":material/link_off:")
    return other


def _describe(plan: Plan, other: Plan) -> None:
    changes = differences(dict(plan), dict(other))
    if not changes:
        st.markdown("**B is the same as A.** Change a setting in the sidebar to compare.")
        return
    found = compute.footprint(other).verdict.sentence
    about = said(f"{whole_subject(other)}. {found}")
    st.markdown(f"**B differs from A in {read_count(len(changes), 'setting')}.** {about}")
    with st.expander("Differences", key="how b differs", on_change="rerun"):
        rows = [(short_label(one.field), say(one.before), say(one.after)) for one in changes]
        st.dataframe(
            pd.DataFrame(rows, columns=["Setting", "A", "B"]),
            hide_index=True,
            key="differences-table",
            alt="Settings in which plan B differs from plan A",
        )


def _set(query: str) -> None:
    st.session_state[address.COMPARE] = query
    st.session_state.pop("b error", None)


def _pin(plan: Plan) -> None:
    _set(to_query_string(plan, short=True))


def _swap(plan: Plan, other: Plan) -> None:
    _pin(plan)
    session.open_plan(other)


def _paste() -> None:
    text = st.session_state["pasted b"].strip()
    if not text:
        return
    reading = from_query_string(text)
    if reading.plan:
        _pin(reading.plan)
    if reading.problems:
        st.session_state["b error"] = "The link of plan B: " + " ".join(
            problem.sentence for problem in reading.problems
        )
    st.session_state["pasted b"] = ""
