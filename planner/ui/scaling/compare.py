"""Plan B: pinned from the present plan or pasted as a link, kept in the address bar."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.plan import Plan
from planner.plan.link import from_query_string, to_query_string
from planner.plan.presets import differences
from planner.ui import compute
from planner.ui.display import say
from planner.ui.inputs.fields import short_label
from planner.ui.messages import plain
from planner.ui.state import address, session


def second_plan(plan: Plan) -> Plan | None:
    """The controls of plan B, and plan B if there is one."""
    other = address.plan_b()
    with st.container(border=True):
        if other is None:
            st.markdown(
                "**Compare with a second plan.** Pin this one as B and change A, or paste a link."
            )
        else:
            _describe(plan, other)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.button(
                "Pin this plan as B",
                icon=":material/keep:",
                key="pin",
                on_click=_pin,
                args=(plan,),
            )
            if other is not None:
                st.button(
                    "Swap A and B",
                    icon=":material/swap_horiz:",
                    key="swap",
                    on_click=_swap,
                    args=(plan, other),
                )
                st.button(
                    "Remove B", icon=":material/close:", key="unpin", on_click=_set, args=("",)
                )
            st.text_input(
                "Link of plan B",
                key="pasted b",
                placeholder="paste a link of this app",
                label_visibility="collapsed",
                on_change=_paste,
            )
        if "b error" in st.session_state:
            st.warning(plain(st.session_state["b error"]), icon=":material/link_off:")
    return other


def _describe(plan: Plan, other: Plan) -> None:
    fields = differences(other, plan)
    if not fields:
        st.markdown("**B is the same as A.** Change something in the sidebar and watch both.")
        return
    verdict = compute.footprint(other).verdict.sentence
    noun = "field" if len(fields) == 1 else "fields"
    st.markdown(f"**B differs from A in {len(fields)} {noun}.** {verdict}")
    with st.expander("Differences", key="differences", on_change=session.acted):
        st.dataframe(
            pd.DataFrame(
                {
                    "Field": [short_label(name) for name in fields],
                    "A": [say(getattr(plan, name)) for name in fields],
                    "B": [say(getattr(other, name)) for name in fields],
                }
            ),
            hide_index=True,
            key="differences-table",
            alt="Fields in which plan B differs from plan A",
        )


def _set(query: str) -> None:
    st.session_state[address.COMPARE] = query
    st.session_state.pop("b error", None)
    session.acted()


def _pin(plan: Plan) -> None:
    _set(to_query_string(plan, short=True))


def _swap(plan: Plan, other: Plan) -> None:
    _pin(plan)
    session.open_plan(other)


def _paste() -> None:
    session.acted()
    text = st.session_state["pasted b"].strip()
    if not text:
        return
    reading = from_query_string(text)
    if reading.plan is not None:
        _pin(reading.plan)
    if reading.problems:
        st.session_state["b error"] = "The link of plan B: " + " ".join(
            problem.sentence for problem in reading.problems
        )
    st.session_state["pasted b"] = ""
