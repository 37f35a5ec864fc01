"""What else the plan could be, as wide as the page: other GPUs, and what each saving does."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

import pandas as pd
import streamlit as st

from planner.charts.options import option_bars
from planner.examples.reference_options import OptionRow, reference_options
from planner.footprint import Footprint
from planner.plan import Plan, references
from planner.ui.elements import ink, segments
from planner.ui.plan import ablation, other_gpus, suggested
from planner.ui.state import session
from planner.wording.display import UNITS

GPUS, ABLATION, REFERENCE, CLOSED = "GPU options", "Ablation", "Reference", "Hide"
PLANNED = "planned"


def show(footprint: Footprint) -> None:
    """The part that is chosen; nothing is worked out for the others."""
    views = [CLOSED, GPUS, ABLATION]
    if references.compares(footprint.plan):
        views.append(REFERENCE)
    st.subheader("Explore", anchor="explore")
    key = "explore view"
    if st.session_state.get(key) not in views:
        st.session_state[key] = CLOSED
    view = segments(
        "Compare",
        views,
        key,
        label_visibility="collapsed",
        help="GPU options: the plan on every GPU of the catalog, in several counts. Ablation: what "
        "each optimization of the plan saves. Reference: where the reference's log-probs come "
        "from.",
    )
    draw = {GPUS: other_gpus.show, ABLATION: ablation.show, REFERENCE: _reference}
    if view in draw:
        suggested.notice("explore")
        draw[view](footprint)


@lru_cache(maxsize=16)
def _forms(plan: Plan, unit: str) -> tuple[OptionRow, ...]:
    found = reference_options(plan, UNITS[unit].read)
    return tuple(one for one in found if one.kind == PLANNED)


def _reference(footprint: Footprint) -> None:
    """The reference's forms: one block of bars a measure, without what the plan cannot have."""
    rows = _forms(footprint.plan, session.unit().name)
    st.caption(
        "The same plan with each way to get reference log-probs. Before and step: seconds that the "
        "reference takes before the run and in a step."
    )
    st.altair_chart(
        option_bars(pd.DataFrame(map(asdict, rows)), ink=ink()),
        key="reference-forms",
        height=len(rows) * 19 + 120,
        alt="; ".join(f"{one.measure}, {one.option}: {one.text}" for one in rows),
    )
