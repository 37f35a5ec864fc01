"""What a taken suggestion did: its fields before and now, what that did, and the way back."""

from __future__ import annotations

import streamlit as st

from planner.plan.chosen import Change, differences
from planner.ui import messages
from planner.ui.state import session
from planner.wording.display import plain
from planner.wording.fields import short_label


def notice(place: str) -> None:
    """While the last thing that happened was that a suggestion was taken; ``place`` keys it."""
    last = session.applied()
    if last is None:
        return
    changes = differences(last.before.values, last.after.values)
    effect = messages.what_it_does(last.before.plan, last.after.plan)
    with st.container(border=True, key=f"applied-{place}"):
        st.markdown(f":material/check_circle: **Applied.** {from_to(changes)}.  \n{effect}")
        with st.container(horizontal=True):
            st.button(
                "Undo",
                key=f"undo-applied-{place}",
                on_click=session.take_back_applied,
                icon=":material/undo:",
                help="Resets every setting to its value from before.",
            )
            icon = ":material/rocket_launch:"
            st.page_link("pages/launch.py", label="Go to Launch", icon=icon)


def from_to(changes: tuple[Change, ...]) -> str:
    """Fields by label, each with its value before and now."""
    return ", ".join(
        f"{short_label(one.field)} {plain(messages.spoken(one, 'before'))} → "
        f"**{plain(messages.spoken(one))}**"
        for one in changes
    )
