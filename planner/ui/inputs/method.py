"""The method: one list of methods and of their published variations, and what those change."""

from __future__ import annotations

import streamlit as st

from planner.plan.methods import methods, variations
from planner.ui.inputs.widgets import select
from planner.ui.state import session
from planner.ui.state.draft import Draft


def method_input(draft: Draft) -> None:
    """One selector for method and variation, and below it what the variation changes."""
    method, variation = draft.values["method"], draft.values["variation"]
    chosen = variation if variation in variations() else method
    varied = [(each, *methods()[each].variations) for each in methods()]
    select("method", chosen, tuple(one for row in varied for one in row), take=_chosen)
    if variation in methods()[method].variations:
        st.caption(methods()[method].variations[variation].memory)


def _chosen(chosen: str) -> None:
    owner = variations().get(chosen)
    session.edit(
        {"method": owner.name if owner else chosen, "variation": chosen if owner else "none"}
    )
