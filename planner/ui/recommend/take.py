"""What can be done with a plan that a search found: open it as the plan, keep it for comparing.

Session key, set here only: ``recommend opened`` is True from a press until the Plan page opens.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.pin import Pinned
from planner.ui.compare import pins
from planner.ui.state import session

OPENED = "recommend opened"


def apply_button(
    found: Plan, now: Plan, key: str, text: str = "Apply", *, first: bool = False, **more: Any
) -> None:
    """It becomes the plan, and the Plan page opens with it; Undo stands there."""
    same = found == now
    st.button(
        "This is the plan" if same else text,
        key=key,
        icon=":material/check:",
        type="primary" if first else "secondary",
        disabled=same,
        on_click=_open,
        args=(found,),
        help="Makes this plan yours and opens the Plan page, where you can undo the change.",
        **more,
    )


def _open(found: Plan) -> None:
    take(found)
    st.session_state[OPENED] = True


def turned() -> None:
    """Go on to the Plan page once a plan was taken; a callback cannot turn pages itself."""
    if st.session_state.pop(OPENED, False):
        st.switch_page("pages/plan.py", query_params={})


def take(found: Plan) -> None:
    """Every page goes on with the plan."""
    # Against the inputs as they are, which may no longer be what was searched from.
    changes = differences(session.draft().values, found.model_dump())
    session.apply({one.field: one.after for one in changes})


def pin_button(found: Plan, name: str, key: str) -> None:
    """Keep the plan for the Compare page, and in the link."""
    about = "Puts this plan on the Compare page, beside your plan."
    pins.button(Pinned(found, name), key, "Pin to Compare", "Pinned", about)
