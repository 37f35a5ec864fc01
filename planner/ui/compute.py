"""The core's answers, kept: a page asks for the same plan many times while it is used.

Answers are frozen values of frozen plans, so a plain cache in the process may hand the
same object to every visitor. Sweeps are tables, which a page could alter: those are
copied by Streamlit's cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pandas as pd
import streamlit as st

from planner.cost import Cost, cost
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan
from planner.recommend import Suggestion, recommend
from planner.sweep import sweep


@lru_cache(maxsize=512)
def footprint(plan: Plan) -> Footprint:
    """The estimate of a plan."""
    return estimate(plan)


def price(plan: Plan) -> Cost:
    """What the plan costs; not kept, since a price grows old."""
    return cost(footprint(plan))


@lru_cache(maxsize=128)
def suggestions(plan: Plan) -> tuple[Suggestion, ...]:
    """The best single changes."""
    return recommend(footprint(plan))


@st.cache_data(max_entries=64, show_spinner=False, hash_funcs={Plan: hash})
def swept(plan: Plan, over: Mapping[str, list[Any]]) -> pd.DataFrame:
    """A table of the plan over the axes."""
    return sweep(plan, over=dict(over))
