"""The best single changes, each with what it saves, what it costs, and a button."""

from __future__ import annotations

import streamlit as st

from planner.recommend import Suggestion
from planner.ui.inputs.fields import changes_in_words, labelled
from planner.ui.state import session

SHOWN = 5


def advice(suggestions: tuple[Suggestion, ...], fits_now: bool) -> None:
    """A row per suggestion; Apply sets its fields."""
    st.subheader("Best single changes", anchor="advice")
    if not suggestions:
        st.caption("No single change of this plan saves memory without changing what is trained.")
        return
    if not fits_now and not any(suggestion.fits for suggestion in suggestions):
        st.caption("None of these is enough by itself; apply one and look again.")
    for place, suggestion in enumerate(suggestions[:SHOWN]):
        _row(place, suggestion, fits_now)


def _row(place: int, suggestion: Suggestion, fits_now: bool) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        mark = ":green-badge[makes it fit] " if suggestion.fits and not fits_now else ""
        st.markdown(
            f"{mark}**{labelled(suggestion.title)}**: {labelled(suggestion.sentence)}.  \n"
            f":small[:gray[{changes_in_words(suggestion.changes)} · "
            f"new peak {session.read(suggestion.device_bytes)}]]",
            width="stretch",
        )
        st.button(
            "Apply",
            key=f"apply:{place}",
            on_click=session.apply,
            args=(dict(suggestion.changes),),
            icon=":material/check:",
        )
