"""The reference's forms side by side: GPU, host, disk, the pass before, and time of each step."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

import pandas as pd
import streamlit as st

from planner.charts.options import option_bars
from planner.examples.reference_options import OptionRow, reference_options
from planner.footprint import Footprint
from planner.plan import Plan
from planner.ui.elements import ink
from planner.ui.state import session
from planner.wording.display import UNITS

PLANNED = "planned"


@lru_cache(maxsize=16)
def _rows(plan: Plan, unit: str) -> tuple[OptionRow, ...]:
    found = reference_options(plan, UNITS[unit].read)
    return tuple(one for one in found if one.kind == PLANNED)


def show(footprint: Footprint) -> None:
    """One block of bars a measure; forms that the plan cannot have are left out."""
    rows = _rows(footprint.plan, session.unit().name)
    st.caption(
        "The same plan with each form of the reference that it can have. Before and step: seconds "
        "of the reference's own passes."
    )
    st.altair_chart(
        option_bars(pd.DataFrame(map(asdict, rows)), ink=ink()),
        key="reference-forms",
        height=len(rows) * 19 + 120,
        alt="; ".join(f"{one.measure}, {one.option}: {one.text}" for one in rows),
    )
