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
from planner.trial.history import HistoryError
from planner.trial.history.compared import compared
from planner.trial.stated_error import Compared, stated
from planner.trial.stated_sweep import stated_errors, stated_sweep
from planner.ui.trial_allowed import permitted


@lru_cache(maxsize=512)
def _estimated(plan: Plan) -> Footprint:
    return estimate(plan)


def footprint(plan: Plan) -> Footprint:
    """The estimate of a plan, with the error that measurements state of each phase."""
    return stated(_estimated(plan), own_comparisons(plan.method))


def own_comparisons(method: str) -> tuple[Compared, ...]:
    """What stored trials of a method say of predictions, to a visitor who may see them."""
    if not permitted():
        return ()
    try:
        return compared(method)
    except HistoryError:  # the Trial page says it, and what to do
        return ()


def price(plan: Plan) -> Cost:
    """What the plan costs; not kept, since a price grows old."""
    return cost(footprint(plan))


@lru_cache(maxsize=128)
def suggestions(plan: Plan) -> tuple[Suggestion, ...]:
    """The best single changes."""
    return recommend(_estimated(plan))


@st.cache_data(max_entries=64, show_spinner=False, hash_funcs={Plan: hash})
def _swept(plan: Plan, over: Mapping[str, list[Any]]) -> pd.DataFrame:
    return sweep(plan, over=dict(over))


def swept(plan: Plan, over: Mapping[str, list[Any]]) -> pd.DataFrame:
    """A table of the plan over the axes, judged by the errors that measurements state."""
    return stated_sweep(_swept(plan, over), stated_errors(footprint(plan)))
