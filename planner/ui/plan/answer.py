"""The verdict of the plan and its figures: what an edit is made for, so they come before inputs.

Drawn after the inputs, it is seen half as long again after the key (benchmarks/README.md).
"""

from __future__ import annotations

from contextvars import ContextVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner.ui import compute, messages, verdict
from planner.ui.elements import beside
from planner.ui.gauge import gauge, used_of
from planner.ui.state import session

_PLACES: ContextVar[tuple[DeltaGenerator, DeltaGenerator]] = ContextVar("columns of the page")
"""Of the run of the script that draws both, the answer and the page below it."""


def show() -> None:
    """Say it, and let a browser draw it; nothing while the inputs make no plan."""
    draft = session.draft()
    if draft.plan is None:
        return
    footprint = compute.shown(draft.plan)
    with st.container(key="strip"), st.container(key="verdict-short"):
        verdict.short(footprint)
    with st.container(key="cockpit"):
        left, right = beside()
    _PLACES.set((left, right))
    with left:
        with st.container(gap="xsmall"):
            verdict.headline(footprint)
            gauge(used_of(footprint))
            verdict.limits(footprint.verdict)
        verdict.figures(footprint, compute.price(draft.plan))
        messages.about_the_edit(draft, "plan")  # below them: they stay where the eye is
    compute.let_it_show()


def places() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Below the answer, where the page goes on; and beside it, where it explains."""
    return _PLACES.get()
