"""The card and how many: supported ones first, then the others with their reason."""

from __future__ import annotations

import streamlit as st

from planner import catalog
from planner.catalog.gpu_catalog import CUSTOM
from planner.ui.inputs import widgets
from planner.ui.state import session
from planner.ui.state.draft import Draft
from planner.units import read_gib

CARDS = {
    card.key: card for card in sorted(catalog.gpus(), key=lambda card: card.budget_bytes is None)
}


def gpu_input(draft: Draft) -> None:
    """Selector of the card, number of cards, and usable bytes where they must be typed."""
    current, typed = draft.values["gpu"], draft.values["gpu_bytes"]
    wide, narrow = st.columns([2, 1])
    with wide:
        widgets.select("gpu", current, (*CARDS, CUSTOM), card_name, _chosen)
    with narrow:
        widgets.field("gpus", draft.values)
    card = CARDS.get(current)
    reason = card.unsupported_reason if card else ""
    if card and reason and not typed:
        st.caption(f":material/block: {card.name} is {reason}.")
    if current == CUSTOM or typed or reason:
        widgets.field("gpu_bytes", draft.values)


def _chosen(key: str) -> None:
    before = session.draft().values
    card = CARDS.get(before["gpu"])
    budget = before["gpu_bytes"] or (card.budget_bytes if card else 0) or 0
    session.edit({"gpu": key, "gpu_bytes": budget if key == CUSTOM else 0})


def card_name(key: str) -> str:
    """A card of the catalog as a person reads it, with the memory that a plan may use."""
    card = CARDS.get(key)
    if card is None:
        return "Other card…" if key == CUSTOM else key
    if card.budget_bytes is None:
        return f"{card.name} · unsupported: nobody has reported its usable bytes"
    return f"{card.name} · {read_gib(card.budget_bytes)} GiB"
