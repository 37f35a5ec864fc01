"""The address bar and the draft, kept equal: complete, both ways, without loops.

Streamlit's own binding leaves out values equal to a default, so the query is written
here. A query that this session did not write means that the person went back or forward
(or opened a link), unless a widget started the run: then the widget is right and the
query is what the browser still showed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from planner import catalog
from planner.plan import FIELDS, Plan
from planner.plan.link import (
    BENCHMARK,
    CALIBRATION,
    CHOSEN,
    SHOWN,
    Reading,
    from_query,
    from_query_string,
)
from planner.ui.state import draft as drafts
from planner.ui.state import session

COMPARE, PEAK = SHOWN
"""Keys of plan B's short query, and of what a page's sizes are."""
TRAINER = "trainer"
"""What sizes can be instead of the driver's: the trainer's own."""
SETTLING_SECONDS = 0.5
"""For so long after an edit was written, the browser may still report the query before it."""


def read() -> None:
    """Take the draft from the address bar if somebody else than this session changed it."""
    given = foreign(first="draft" not in st.session_state)
    if given:
        _open(given)
    session.draft()


def foreign(first: bool) -> dict[str, list[str]]:
    """The query if it is a visit's first or somebody else than this session changed it."""
    given = {key: st.query_params.get_all(key) for key in st.query_params}
    edited = st.session_state.pop("edited", False)
    ours = edited or _is_ours({key: given[key][-1] for key in given})
    return given if first or not ours else {}


def _open(given: dict[str, list[str]]) -> None:
    reading = from_query(given, ignore=SHOWN)
    st.session_state["opened"] = True
    session.forget_own_inputs()
    st.session_state[COMPARE] = given.get(COMPARE, [""])[-1]
    st.session_state[PEAK] = TRAINER if given.get(PEAK, [""])[-1] == TRAINER else ""
    for key, found in ((CALIBRATION, reading.calibration), (BENCHMARK, reading.benchmark)):
        st.session_state[key] = "" if found is None else given[key][-1]
    if reading.plan is not None:
        session.set_draft(drafts.of_plan(reading.plan, reading.preset, _chosen(given, reading)))
    told = reading.problems or reading.renamed
    if reading.plan is not None and _unmeasured(given):
        # The page offers to measure it; until then there is a draft and no plan.
        session.set_draft(drafts.edited(session.draft(), {"config": given["config"][-1]}))
        told = ()
    st.session_state["reading"] = reading if told else None


def _unmeasured(given: Mapping[str, Any]) -> bool:
    """Whether the link's model has to be measured on this machine first."""
    try:
        model = catalog.parse_config(catalog.decode_config(given["config"][-1]))
    except (KeyError, IndexError, ValueError):
        return False
    return bool(model.spot) and model.architecture is None


def _chosen(given: Mapping[str, Any], reading: Reading) -> Collection[str] | None:
    """Fields that the link says were chosen; in an old complete one all were.

    A link that names few fields builds on a preset, of which nobody chose what is implied.
    """
    if CHOSEN in given or len(reading.chosen) == len(FIELDS):
        return reading.chosen
    return None


def _is_ours(given: dict[str, str]) -> bool:
    if given == st.session_state.get("written"):
        return True
    fresh = time.monotonic() - st.session_state.get("written at", 0.0) < SETTLING_SECONDS
    return fresh and given == st.session_state.get("written before")


def write() -> None:
    """Put the complete draft into the address bar; does nothing when it is there already."""
    put(current_query())


def put(wanted: Mapping[str, str]) -> None:
    """Put a query into the address bar, and remember that it was this session's."""
    wanted = dict(wanted)
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)
    if st.session_state.get("written") != wanted:
        opened = st.session_state.pop("opened", False)
        st.session_state["written before"] = None if opened else st.session_state.get("written")
        st.session_state["written at"] = time.monotonic()
        st.session_state["written"] = wanted


def current_query() -> dict[str, str]:
    """The complete query of what is on the page."""
    carried = (CALIBRATION, BENCHMARK, COMPARE, PEAK)
    beside = {key: st.session_state.get(key, "") for key in carried}
    return {**drafts.query(session.draft()), **{key: text for key, text in beside.items() if text}}


def plan_b() -> Plan | None:
    """The plan that is compared with, if there is one."""
    query = st.session_state.get(COMPARE)
    return from_query_string(query).plan if query else None


def link(query: Mapping[str, str]) -> str:
    """A query under the app's address as the browser sees it, without a page."""
    url = (st.context.url or "http://localhost:8501").rstrip("/")
    root = url.removesuffix(f"/{page_path()}")
    return f"{root}/?{urlencode(query)}"


def page_path() -> str:
    """Last part of the address that the browser shows; empty on the front page."""
    front, _, page = (st.context.url or "").rstrip("/").rpartition("/")
    return page if page in PAGE_PATHS and "//" in front else ""


PAGE_PATHS = ("plan", "scaling", "trial", "sampling", "launch", "examples", "formulas")
"""Last part of each page's address."""
