"""What can be done with a plan that a search found: open it as the plan, keep it for comparing."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.pin import Pinned
from planner.ui.compare import pins
from planner.ui.state import session


def apply_button(
    found: Plan, now: Plan, key: str, text: str = "Apply", *, first: bool = False, **more: Any
) -> None:
    """Every page goes on with the plan; it can be taken back."""
    same = found == now
    st.button(
        "This is the plan" if same else text,
        key=key,
        icon=":material/check:",
        type="primary" if first else "secondary",
        disabled=same,
        on_click=take,
        args=(found,),
        help="Every page goes on with it; Undo stands above the form then.",
        **more,
    )


def take(found: Plan) -> None:
    """Every page goes on with the plan."""
    # Against the inputs as they are, which may no longer be what was searched from.
    changes = differences(session.draft().values, found.model_dump())
    session.apply({one.field: one.after for one in changes})


def pin_button(found: Plan, name: str, key: str) -> None:
    """Keep the plan for the Compare page, and in the link."""
    about = "Beside your own plan and others on Compare."
    pins.button(Pinned(found, name), key, "Pin to Compare", "Pinned", about)
