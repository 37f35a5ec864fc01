"""What every page stands in: navigation, the one sidebar, the address bar, messages.

The Sampling page plans something else, so it brings a sidebar and an address of its own.

Streamlit serves the files of ``pages/`` by itself until some session has called
``st.navigation``, so a cold deep link can run a page without ``app.py``. :func:`enter`
notices that and starts again with the frame.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Literal

import streamlit as st
from streamlit.navigation.page import Page

from planner.plan import Plan
from planner.ui import measuring, messages, uploads
from planner.ui.inputs import sidebar
from planner.ui.sampling import inputs as sampling_inputs
from planner.ui.sampling import state as sampling_state
from planner.ui.state import address, session

INSIDE = ContextVar("inside the frame", default=False)
"""Not session state: a stopped script may not write that any more, and would leave it on."""


def pages() -> list[Page]:
    """The pages, in the order of the menu; the first is the front page, also under its name.

    The menu shows the one of the two that is open. Neither leads to the other: a step back would
    lead forward again.
    """
    named = address.page_path() == "plan"
    return [
        _plan_page(shown=not named, default=True, url_path="front"),
        _plan_page(shown=named, url_path="plan"),
        st.Page("pages/scaling.py", title="Scaling", icon=":material/show_chart:"),
        st.Page("pages/trial.py", title="Trial", icon=":material/speed:"),
        st.Page("pages/sampling.py", title="Sampling", icon=":material/scatter_plot:"),
        st.Page("pages/launch.py", title="Launch", icon=":material/rocket_launch:"),
        st.Page("pages/examples.py", title="Examples", icon=":material/menu_book:"),
        st.Page("pages/formulas.py", title="Formulas", icon=":material/function:"),
    ]


def _plan_page(shown: bool, **where: Any) -> Page:
    visibility: Literal["visible", "hidden"] = "visible" if shown else "hidden"
    icon = ":material/rule:"
    return st.Page("pages/plan.py", title="Plan", icon=icon, visibility=visibility, **where)


def run() -> None:
    """Draw the frame and the chosen page in it."""
    page = st.navigation(pages(), position="top")
    uploads.begin()
    own = page.url_path == sampling_state.PATH
    if own:
        sampling_state.read()
        sampling_inputs.draw()
        sampling_state.write()
    else:
        address.read()
        sidebar.draw()
        address.write()
    token = INSIDE.set(True)
    try:
        if not own:
            messages.about_the_link()
            messages.about_the_calibration()
            messages.about_the_benchmark()
        page.run()
        uploads.end()
    finally:
        INSIDE.reset(token)


def enter() -> None:
    """First line of every page; never inside a fragment, which runs without the frame."""
    if not INSIDE.get():
        st.navigation(pages())
        st.rerun()


def current_plan() -> Plan:
    """The plan on the page, for pages that need one; says why when there is none."""
    enter()
    draft = session.draft()
    if draft.plan is None:
        messages.offer(draft)
        if not measuring.panel(draft):
            messages.impossible(draft)
        st.stop()
    if not messages.offer(draft):
        messages.followed(draft)
    return draft.plan
