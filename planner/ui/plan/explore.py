"""What else the plan could be, as wide as the page: which GPUs, and what each saving does."""

from __future__ import annotations

import streamlit as st

from planner.footprint import Footprint
from planner.setup import references
from planner.ui.elements import segments
from planner.ui.plan import applied, other_gpus, reference_forms, what_if

GPUS, WHAT_IF, REFERENCE, CLOSED = "Which GPUs", "What if", "The reference", "Closed"


def show(footprint: Footprint) -> None:
    """The part that is chosen; nothing is worked out for the others."""
    views = [CLOSED, GPUS, WHAT_IF]
    if references.compares(footprint.plan):
        views.append(REFERENCE)
    st.subheader("Other ways", anchor="explore")
    key = "explore view"
    if st.session_state.get(key) not in views:
        st.session_state[key] = CLOSED
    view = segments(
        "Compare",
        views,
        key,
        label_visibility="collapsed",
        help="Which GPUs: every card of the catalog, by how many. What if: each optimization's "
        "own part of memory and time. The reference: where its log-probs come from.",
    )
    draw = {GPUS: other_gpus.show, WHAT_IF: what_if.show, REFERENCE: reference_forms.show}
    if view in draw:
        applied.notice("explore")
        draw[view](footprint)
