"""What can be done with a plan that a search found: open it as the plan, keep it for comparing."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.pin import MOST, Pinned
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
    kept = session.pins()
    is_pinned = found in (one.plan for one in kept)
    st.button(
        "Pinned" if is_pinned else "Pin to Compare",
        key=key,
        icon=":material/keep:",
        disabled=is_pinned or len(kept) >= MOST,
        on_click=pins.pin,
        args=([Pinned(found, name)],),
        help=f"{MOST} plans are pinned; remove one on Compare."
        if len(kept) >= MOST and not is_pinned
        else "Beside your own plan and others on Compare.",
    )
