"""One visitor's state, and everything that may change it.

Session keys, and who sets them:
``draft``      the inputs' values; set here only.
``reading``    what was wrong with the link that was opened; set by :mod:`planner.ui.state.address`.
``undo``       the last draft that had a plan, while the current one has none.
``compare``    plan B's short query, empty when there is none; kept in the address bar.
``calibration``  the link's correction factors as text, empty when there are none; kept in the
               address bar.
``benchmark``  the link's measured shares as text, empty when there are none; kept in the address
               bar.
``peak``       ``trainer`` where pages show the trainer's own peak, else empty; kept in the address
               bar.
``edited``     a callback ran before this script run; read and cleared by the address.
``unit``       name of the unit of memory.
``other model``, ``model error``  the inputs of a model from outside are open, and what was
               wrong with it; set by :mod:`planner.ui.inputs.model`.
``own lengths``, ``lengths error``  the same of response lengths; set by
               :mod:`planner.ui.inputs.lengths`.
``written``, ``written before``, ``written at``, ``opened``  see :mod:`planner.ui.state.address`.
Widgets of fields have the key ``field:<name>`` and only mirror the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import streamlit as st

from planner.plan import Plan
from planner.plan.factors import Factors, factors_from_text
from planner.plan.link import BENCHMARK, CALIBRATION, Reading
from planner.plan.presets import DEFAULT, presets
from planner.speeds import Speeds, speeds_from_text
from planner.ui.display import UNITS, Unit
from planner.ui.state import draft as drafts
from planner.ui.state.draft import Draft


def draft() -> Draft:
    """The current draft; the default preset before anything was opened."""
    if "draft" not in st.session_state:
        set_draft(drafts.of_plan(presets()[DEFAULT].plan, DEFAULT))
    return cast(Draft, st.session_state["draft"])


def set_draft(new: Draft) -> None:
    """Replace the draft; remembers the last one that had a plan."""
    old = st.session_state.get("draft")
    if new.plan is not None:
        st.session_state.pop("undo", None)
    elif old is not None and old.plan is not None:
        st.session_state["undo"] = old
    st.session_state["draft"] = new


def widget_key(field: str) -> str:
    """Session key of a field's widget."""
    return f"field:{field}"


def on_edit(field: str, convert: Callable[[Any], Any] | None = None) -> None:
    """Callback of a field's widget: the typed value enters the draft."""
    value = st.session_state[widget_key(field)]
    if value is not None:
        edit({field: convert(value) if convert else value})


def edit(changes: Mapping[str, Any]) -> None:
    """A person set these fields; unset ones follow."""
    _act(drafts.edited(draft(), changes))


def apply(changes: Mapping[str, Any]) -> None:
    """Set exactly these fields (a suggestion was taken); nothing follows."""
    _act(drafts.replaced(draft(), changes))


def open_preset(key: str) -> None:
    """Start again from a preset."""
    st.session_state.pop("reading", None)
    forget_own_inputs()
    _act(drafts.of_plan(presets()[key].plan, key))


def open_plan(plan: Plan) -> None:
    """Continue with another plan."""
    forget_own_inputs()
    _act(drafts.of_plan(plan))


def forget_own_inputs() -> None:
    """The person no longer brings a model or lengths of their own."""
    st.session_state.pop("other model", None)
    st.session_state.pop("model error", None)
    st.session_state.pop("own lengths", None)
    st.session_state.pop("lengths error", None)


def take_offer() -> None:
    """Let what nobody would have to choose follow the last edit."""
    other = drafts.offered(draft())
    if other is not None:
        _act(other)


def take_back() -> None:
    """Back to the draft before the last edit, with what followed it."""
    before = draft().before
    if before is not None:
        _act(before)


def undo() -> None:
    """Back to the last draft that had a plan."""
    if "undo" in st.session_state:
        _act(st.session_state["undo"])


def _act(new: Draft) -> None:
    set_draft(new)
    acted()


def acted() -> None:
    """Callback of every other widget: this run was started here, not by the address bar."""
    st.session_state["edited"] = True


def reading() -> Reading | None:
    """What the opened link said, while it is worth showing."""
    return cast("Reading | None", st.session_state.get("reading"))


def answers_another() -> bool:
    """Whether the page shows an earlier plan, since what was given last could not be used."""
    found = reading()
    return "model error" in st.session_state or (found is not None and found.plan is None)


def dismiss_reading() -> None:
    """The person has read what was wrong with the link."""
    st.session_state.pop("reading", None)
    acted()


def calibration() -> Factors | None:
    """The correction factors that the opened link carries."""
    text = st.session_state.get(CALIBRATION)
    return factors_from_text(text) if text else None


def speeds() -> Speeds | None:
    """The shares of a card's peaks that the opened link carries."""
    text = st.session_state.get(BENCHMARK)
    return speeds_from_text(text) if text else None


def carry(key: str, text: str = "") -> None:
    """The page and its link go on with this calibration or benchmark, or without one."""
    st.session_state[key] = text
    acted()


def unit() -> Unit:
    """The unit memory is shown in."""
    return UNITS[st.session_state.get("unit", "GiB")]


def read(size_bytes: float | None) -> str:
    """Bytes in that unit."""
    return unit().read(size_bytes)
