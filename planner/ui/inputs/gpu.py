"""The card and how many: supported ones first, then the others with their reason."""

from __future__ import annotations

import streamlit as st

from planner import catalog
from planner.catalog.gpu_catalog import CUSTOM
from planner.ui.inputs import widgets
from planner.ui.inputs.fields import help_text, label
from planner.ui.state import session
from planner.ui.state.draft import Draft
from planner.units import read_gib

KEY = session.widget_key("gpu")


def gpu_input(draft: Draft) -> None:
    """Selector of the card, number of cards, and usable bytes where they must be typed."""
    current = draft.values["gpu"]
    names = {card.key: _name(card) for card in sorted(catalog.gpus(), key=_supported_first)}
    names[CUSTOM] = "Other card…"
    names.setdefault(current, current)
    widgets.mirror(KEY, current)
    wide, narrow = st.columns([2, 1])
    with wide:
        st.selectbox(
            label("gpu"),
            list(names),
            index=list(names).index(current),
            key=KEY,
            format_func=lambda key: names[key],
            help=help_text("gpu"),
            on_change=_chosen,
        )
    with narrow:
        widgets.field("gpus", draft.values)
    if current == CUSTOM or draft.values["gpu_bytes"] or _unsupported(current):
        if _unsupported(current) and not draft.values["gpu_bytes"]:
            st.caption(f":material/block: {_card_name(current)} is {_unsupported(current)}.")
        widgets.field("gpu_bytes", draft.values)


def _chosen() -> None:
    key = st.session_state[KEY]
    if key != CUSTOM:
        session.edit({"gpu": key, "gpu_bytes": 0})
        return
    before = session.draft().values
    card = next((card for card in catalog.gpus() if card.key == before["gpu"]), None)
    budget = before["gpu_bytes"] or (card.budget_bytes if card else 0) or 0
    session.edit({"gpu": CUSTOM, "gpu_bytes": budget})


def _supported_first(card: catalog.Gpu) -> bool:
    return card.budget_bytes is None


def _name(card: catalog.Gpu) -> str:
    if card.budget_bytes is None:
        return f"{card.name} · unsupported: nobody has reported its usable bytes"
    return f"{card.name} · {read_gib(card.budget_bytes)} GiB"


def _unsupported(key: str) -> str:
    card = next((card for card in catalog.gpus() if card.key == key), None)
    return card.unsupported_reason if card else ""


def _card_name(key: str) -> str:
    return next((card.name for card in catalog.gpus() if card.key == key), key)
