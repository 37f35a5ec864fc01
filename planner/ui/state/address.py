"""The address bar and the draft, kept equal: complete, both ways, without loops.

Streamlit's own binding leaves out values equal to a default, so the query is written
here. The browser may still report an address that an edit has since replaced; one that this
session wrote is taken only where the browser says that the person went back or forward to it.

Session key ``written``: marks of the addresses that were opened or written, the last one last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from planner import catalog
from planner.linktext import short
from planner.plan import FIELDS, Plan
from planner.plan import pin as pins
from planner.plan.fieldtext import from_text
from planner.plan.link import Reading, from_query, from_query_string
from planner.plan.query import BENCHMARK, CALIBRATION, CHOSEN, PIN, SHOWN, WISH
from planner.plan.unmeasured import unmeasured
from planner.problem import Problem
from planner.search import wish as wishes
from planner.ui.state import draft as drafts
from planner.ui.state import session
from planner.ui.state.draft import Draft

COMPARE, PEAK, *_ = SHOWN
"""Keys of plan B's short query, and of what a page's sizes are."""
Query = Mapping[str, str | Sequence[str]]
"""Keys of an address, each with its value or its values."""
TRAINER = "trainer"
"""What sizes can be instead of the driver's: the trainer's own."""
MOST_WRITTEN = 200
"""So many addresses of a visit are known again."""


def read() -> None:
    """Take the draft from the address bar if somebody else than this session changed it."""
    given = foreign(first="draft" not in st.session_state)
    if given:
        _open(given)
    session.draft()


def foreign(first: bool) -> dict[str, list[str]]:
    """The query if it is a visit's first or somebody else than this session changed it."""
    given = {key: st.query_params.get_all(key) for key in st.query_params}
    written, mark = st.session_state.get("written", []), _mark(given)
    known = written[-1:] == [mark] if _went_back() else mark in written
    if known and not first:
        return {}
    _remember(given)
    return given


def _went_back() -> bool:
    """Whether the browser went back or forward, as it says itself."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def _mark(query: Mapping[str, Sequence[str]]) -> int:
    return hash(frozenset((key, tuple(values)) for key, values in query.items()))


def _remember(query: Mapping[str, Sequence[str]]) -> None:
    mark, written = _mark(query), st.session_state.get("written", [])
    if query and written[-1:] != [mark]:
        kept = [one for one in written if one != mark]
        st.session_state["written"] = [*kept[1 - MOST_WRITTEN :], mark]


def _open(given: dict[str, list[str]]) -> None:
    reading = from_query(given, ignore=SHOWN)
    session.forget_own_inputs()
    st.session_state[COMPARE] = given.get(COMPARE, [""])[-1]
    st.session_state[PEAK] = TRAINER if given.get(PEAK, [""])[-1] == TRAINER else ""
    for key, found in ((CALIBRATION, reading.calibration), (BENCHMARK, reading.benchmark)):
        st.session_state[key] = "" if found is None else given[key][-1]
    if reading.plan is not None:
        session.set_draft(_draft(reading.plan, reading, _chosen(given, reading)))
    kept, broken = pins.from_pins(given.get(PIN, ()))
    if PIN in given or session.pins_of_the_link():  # plans too long for a link are no part of it
        session.set_pins(kept)
    st.session_state[WISH], unclear = _wished(given.get(WISH, [""])[-1])
    broken = (*broken, *unclear)
    # What a switch did is said by the page itself, beside its plan.
    own = () if reading.switch is None else (reading.switch.note,)
    left = tuple(note for note in reading.told if note not in own)
    reading = replace(reading, problems=(*reading.problems, *broken), told=left)
    told = reading.problems or reading.told
    if reading.problems:
        asked = _unmeasured(given, reading)
        if asked is not None:
            # The page offers to measure it; until then there is a draft and no plan.
            session.set_draft(asked)
            told = broken
            reading = replace(reading, problems=broken, left_out=())
    st.session_state["reading"] = reading if told else None


def _draft(plan: Plan, reading: Reading, chosen: Collection[str] | None) -> Draft:
    if reading.switch is None:
        return drafts.of_plan(plan, reading.preset, chosen)
    return drafts.arrived(plan, reading.switch.before, reading.preset, chosen)


def _unmeasured(given: Mapping[str, Any], reading: Reading) -> Draft | None:
    """The draft with all that the link names, where its plan lacks but a measurement."""
    left_out = {problem.field for problem in reading.problems}
    try:
        values = {
            name: from_text(name, given[name][-1])
            for name in FIELDS
            if name in given and (reading.plan is None or name in left_out)
        }
    except ValueError:
        return None
    old = session.draft()
    draft = drafts.unplanned(old, values) if reading.plan is None else drafts.edited(old, values)
    return draft if draft.plan is None and unmeasured(draft.values) else None


def _wished(text: str) -> tuple[str, tuple[Problem, ...]]:
    """The link's wish as this app writes it, or what is wrong with it: then it is left out."""
    if not text:
        return "", ()
    try:
        wish = wishes.from_text(text)
        known = {card.key for card in catalog.gpus()}
        if strange := [card for card in wish.cards if card not in known]:
            raise ValueError(f"has {short(strange[0])}, which is no card of the catalog")
    except ValueError as error:
        said = f"{WISH} {error}".rstrip(".")
        return "", (Problem(WISH, f"{said}.", "Ask again on Recommend; the plan is unchanged."),)
    return wishes.to_text(wish), ()


def _chosen(given: Mapping[str, Any], reading: Reading) -> Collection[str] | None:
    """Fields that the link says were chosen; in an old complete one all were.

    A link that names few fields builds on a preset, of which nobody chose what is implied.
    """
    if CHOSEN in given or len(reading.chosen) == len(FIELDS):
        return reading.chosen
    return None


def write() -> None:
    """Put the complete draft into the address bar; does nothing when it is there already."""
    put(current_query())


def put(query: Query) -> None:
    """Put a query into the address bar, and remember that it was this session's."""
    wanted = {key: [text] if isinstance(text, str) else [*text] for key, text in query.items()}
    if {key: st.query_params.get_all(key) for key in st.query_params} != wanted:
        st.query_params.from_dict(wanted)
    _remember(wanted)


def current_query() -> dict[str, str | Sequence[str]]:
    """The complete query of what is on the page; pins that are too long for a link stay out.

    What the opened link asked for and the page leaves out stays as it was asked for: whoever loads
    the page again is told again.
    """
    carried = (CALIBRATION, BENCHMARK, COMPARE, PEAK, WISH)
    beside = {
        **{key: st.session_state.get(key, "") for key in carried},
        PIN: session.pins_of_the_link(),
    }
    asked = {name: text for name, text in session.left_out().items() if name in FIELDS}
    more = {key: text for key, text in beside.items() if text}
    return {**drafts.query(session.draft()), **asked, **more}


def plan_b() -> Plan | None:
    """The plan that is compared with, if there is one."""
    query = st.session_state.get(COMPARE)
    return from_query_string(query).plan if query else None


def link(query: Query) -> str:
    """A query under the app's address as the browser sees it, without a page."""
    return link_under(app_address(), query)


def app_address() -> str:
    """The app's address as the browser sees it, without a page."""
    url = (st.context.url or "http://localhost:8501").rstrip("/")
    return url.removesuffix(f"/{page_path()}")


def link_under(root: str, query: Query) -> str:
    """A query under an app's address."""
    return f"{root}/?{urlencode(query, doseq=True)}"


def page_path() -> str:
    """Last part of the address that the browser shows; empty on the front page."""
    front, _, page = (st.context.url or "").rstrip("/").rpartition("/")
    return page if page in PAGE_PATHS and "//" in front else ""


PAGE_PATHS = (
    *("plan", "scaling", "recommend", "compare", "trial", "sampling", "launch"),
    *("examples", "formulas"),
)
"""Last part of each page's address."""
