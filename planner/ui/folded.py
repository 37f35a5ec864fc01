"""Expanders that draw their content only when open, and stay open when their title changes.

Streamlit takes an expander with another title for another one and folds it. Titles here
count changes and show values, so whether one is open is remembered under its key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from planner.ui.state import session


@contextmanager
def folded(title: str, key: str, icon: str | None = None) -> Iterator[bool]:
    """An expander; tells whether it is open, so that a closed one's content is not drawn."""
    remembered = f"open:{key}"
    st.session_state[key] = bool(st.session_state.get(remembered))
    expander = st.expander(title, icon=icon, key=key, on_change=_turn, args=(key, remembered))
    with expander:
        yield bool(expander.open)


def _turn(key: str, remembered: str) -> None:
    st.session_state[remembered] = st.session_state[key]
    session.acted()
