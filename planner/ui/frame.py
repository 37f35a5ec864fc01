"""What every page stands in: navigation, the one sidebar, the address bar, messages.

The Sampling page plans something else, so it brings a sidebar and an address of its own.

Streamlit serves the files of ``pages/`` by itself until some session has called
``st.navigation``, so a cold deep link can run a page without ``app.py``. :func:`enter`
notices that and starts again with the frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Literal

import streamlit as st
from streamlit.navigation.page import Page

from planner.plan import Plan
from planner.ui import collection, compute, measuring, messages, uploads, verdict
from planner.ui.elements import ink
from planner.ui.inputs import sidebar
from planner.ui.plan import answer
from planner.ui.sampling import inputs as sampling_inputs
from planner.ui.sampling import state as sampling_state
from planner.ui.state import address, session, typed

COLORS: Mapping[str, tuple[str, str]] = {
    "faded": ("#565C66", "#AEB6BF"),
    "on-primary": ("#FFFFFF", "#0F1419"),
    "pointed-at": ("#00639C", "#56B4E9"),
    "code-string": ("#18753A", "#5CC98A"),
    "code-number": ("#0B6E66", "#4FD0C0"),
    "code-operator": ("#9A4A00", "#FF9A4D"),
    "code-function": ("#006A8E", "#5CC4E8"),
    "code-keyword": ("#0B62B8", "#6CB4FF"),
    "code-important": ("#C0282D", "#FF8A8A"),
}
"""Light and dark, of text that no option of Streamlit reaches: 4.5 to 1 on page and sidebar."""
HERE = Path(__file__).parent
ICON = HERE / "icon.svg"
"""A file, since the browser would fetch an icon by name from a host of fonts."""
NAME = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="150" height="32" viewBox="0 0 150 32">'
    '<text x="0" y="24" font-family="sans-serif" font-size="25" font-weight="700" fill="{ink}">'
    "Headroom</text></svg>"
)
PLANS = ("", "front", "plan")
"""Last part of the Plan page's addresses."""
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
        st.Page("pages/import.py", title="Import", icon=":material/input:"),
        st.Page("pages/scaling.py", title="Scaling", icon=":material/show_chart:"),
        st.Page("pages/recommend.py", title="Recommend", icon=":material/lightbulb:"),
        st.Page("pages/compare.py", title="Compare", icon=":material/compare_arrows:"),
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
    _dress()
    uploads.begin()
    typed.take()
    own = page.url_path == sampling_state.PATH
    if own:
        sampling_state.read()
        sampling_inputs.draw()
        sampling_state.write()
    else:
        arrives = "draft" not in st.session_state
        address.read()
        _verdict_beside()
        _inputs_and_answer(page.url_path, arrives)
        address.write()
    token = INSIDE.set(True)
    try:
        page.run()
        uploads.end()
    finally:
        INSIDE.reset(token)
        collection.script_ended()


def _inputs_and_answer(path: str, arrives: bool) -> None:
    """An edit's answer comes before the inputs; who arrives sees the page built from its edge."""
    if arrives:
        sidebar.draw()
    try:
        _lead(path)
    finally:  # also where an answer fails: what is wrong may be mended in the inputs
        if not arrives:
            sidebar.draw()


def _lead(path: str) -> None:
    """What stands above every page, and the Plan page's answer."""
    messages.about_the_link()
    messages.about_the_calibration()
    messages.about_the_benchmark()
    if path in PLANS:
        answer.show()


def _dress() -> None:
    """The product's name in the corner, and what the page looks like beyond the theme."""
    st.logo(NAME.format(ink=ink()), size="large")
    st.html(_style("dark" if st.context.theme.type == "dark" else "light"))


@cache
def _style(mode: str) -> str:
    """The page itself says which appearance it has now; what lies over it has the visit's."""
    colors = {
        "page": _both("backgroundColor", "#FFFFFF", "#0E1117"),
        "beside": _both("secondaryBackgroundColor", "#F0F2F6", "#262730"),
        **COLORS,
    }
    over = " ".join(f"--{name}: {pair[mode == 'dark']};" for name, pair in colors.items())
    page = " ".join(f"--{name}: light-dark({', '.join(pair)});" for name, pair in colors.items())
    rules = (HERE / "style.css").read_text(encoding="utf-8")
    return f'<style>:root {{ {over} }}\n[data-testid="stApp"] {{ {page} }}\n{rules}</style>'


def _both(option: str, light: str, dark: str) -> tuple[str, str]:
    """A colour of the theme; Streamlit's own where the app was started without its settings."""
    given = st.get_option(f"theme.light.{option}"), st.get_option(f"theme.dark.{option}")
    return given[0] or light, given[1] or dark


def _verdict_beside() -> None:
    """The verdict above the inputs, for windows so narrow that those cover the page.

    Always there: an input that loses its place in the sidebar loses what is being typed.
    """
    plan = session.draft().plan
    with st.sidebar, st.container(key="verdict-beside"):
        if plan is None:
            verdict.none_yet()
        else:
            verdict.short(compute.shown(plan))


def enter() -> None:
    """First line of every page; never inside a fragment, which runs without the frame."""
    if not INSIDE.get():
        st.navigation(pages())
        st.rerun()


def current_plan() -> Plan:
    """The plan on the page, for pages that need one; says why when there is none."""
    plan = answered_plan()
    messages.about_the_edit(session.draft())
    return plan


def answered_plan() -> Plan:
    """The same for the page whose answer stands above it, with what the last edit did."""
    enter()
    draft = session.draft()
    if draft.plan is None:
        messages.offer(draft)
        if not measuring.panel(draft):
            messages.impossible(draft)
        st.stop()
    return draft.plan
