"""The switch between what the driver sees and the trainer's own peak; the link carries it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.footprint import Footprint
from planner.ui.state import address


def switch(place: Any = st) -> bool:
    """The switch; True where sizes are the trainer's own."""
    chosen = st.session_state.get(address.PEAK) == address.TRAINER
    st.session_state["own peak"] = chosen
    place.toggle(
        "Training tensors only",
        key="own peak",
        on_change=_turn,
        help="The most that the trainer's tensors request at once (requested_bytes in PyTorch's "
        "memory statistics). The GPU's peak also includes vLLM's reservation, which hides how "
        "training memory grows.",
    )
    return chosen


def _turn() -> None:
    on = st.session_state["own peak"]
    st.session_state[address.PEAK] = address.TRAINER if on else ""


def size_bytes(footprint: Footprint, own: bool) -> int:
    """The peak that is shown."""
    return footprint.trainer_bytes if own else footprint.device_bytes
