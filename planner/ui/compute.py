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

from planner import late
from planner.cost import Cost, cost
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan
from planner.recommend import Suggestion, recommend
from planner.speeds import Speeds, holding
from planner.sweep import sweep
from planner.trial.evidence.stated_error import Compared, stated
from planner.trial.evidence.stated_sweep import stated_errors, stated_sweep
from planner.trial.history import HistoryError
from planner.trial.history.comparisons import compared
from planner.ui.state import session
from planner.ui.trial.allowed import permitted


@lru_cache(maxsize=512)
def _estimated(plan: Plan, speeds: Speeds | None) -> Footprint:
    return estimate(plan, speeds)


def footprint(plan: Plan) -> Footprint:
    """The estimate of a plan, with the error that measurements state of each phase.

    Its times are by the link's benchmark where that holds for the plan.
    """
    found = _estimated(plan, holding(session.speeds(), plan))
    return stated(found, own_comparisons(plan.method))


def own_comparisons(method: str) -> tuple[Compared, ...]:
    """What stored trials of a method say of predictions, to a visitor who may see them."""
    if not permitted():
        return ()
    try:
        return compared(method)
    except HistoryError:  # the Trial page says it, and what to do
        return ()


@lru_cache(maxsize=128)
def longest_responses(plan: Plan) -> str:
    """What the longest of a plan's responses do to its memory; empty where that is not known."""
    return late.longest_responses(_estimated(plan, None))


def price(plan: Plan) -> Cost:
    """What the plan costs; not kept, since a price grows old."""
    return cost(footprint(plan))


def suggestions(plan: Plan) -> tuple[Suggestion, ...]:
    """The best single changes."""
    return _suggestions(plan, holding(session.speeds(), plan))


@lru_cache(maxsize=128)
def _suggestions(plan: Plan, speeds: Speeds | None) -> tuple[Suggestion, ...]:
    return recommend(_estimated(plan, speeds))


@st.cache_data(max_entries=64, show_spinner=False, hash_funcs={Plan: hash, Speeds: hash})
def _swept(plan: Plan, over: Mapping[str, list[Any]], speeds: Speeds | None) -> pd.DataFrame:
    return sweep(plan, over=dict(over), speeds=speeds)


def swept(plan: Plan, over: Mapping[str, list[Any]]) -> pd.DataFrame:
    """A table of the plan over the axes, judged by the errors that measurements state."""
    table = _swept(plan, over, holding(session.speeds(), plan))
    return stated_sweep(table, stated_errors(footprint(plan)))
