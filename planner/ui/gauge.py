"""Of what a GPU holds, how much the peak takes: one value, from which everything on a page says it.

:func:`used_of` is the only place that decides whose figure that is.
"""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from planner.footprint import Footprint
from planner.ui.state import session
from planner.wording.display import percent


class Used(NamedTuple):
    """Bytes at the peak with their bounds, what there is, and the verdict of it."""

    device_bytes: int
    low_bytes: int
    high_bytes: int
    budget_bytes: int
    word: str
    sentence: str

    @property
    def share(self) -> float:
        """Of the GPU, what the peak takes."""
        return self.device_bytes / self.budget_bytes


def used_of(footprint: Footprint) -> Used:
    """What verdict, gauge and figures say of a plan's peak."""
    return Used(
        device_bytes=footprint.device_bytes,
        low_bytes=max(phase.least_bytes for phase in footprint.phases),
        high_bytes=max(phase.most_bytes for phase in footprint.phases),
        budget_bytes=footprint.budget_bytes,
        word=footprint.verdict.said,
        sentence=footprint.verdict.sentence,
    )


def gauge(used: Used) -> None:
    """A bar as long as the GPU, filled as far as the peak, with the peak's range over its end."""
    unit = session.unit()
    end = max(used.budget_bytes, used.device_bytes, used.high_bytes)
    full, low, high, card = (
        f"{100 * size / end:.1f}%"
        for size in (used.device_bytes, used.low_bytes, used.high_bytes, used.budget_bytes)
    )
    peak, total = f"{unit.value(used.device_bytes):,.1f}", session.read(used.budget_bytes)
    least, most = (f"{unit.value(size):,.1f}" for size in (used.low_bytes, used.high_bytes))
    between = "" if least == most else f" · range {least}–{most}"
    most_now = min(used.device_bytes, used.budget_bytes)
    word = "off" if session.answers_another() else used.word.replace(" ", "-")
    rest = "Without what is left out: " if used.word == "incomplete" else ""
    st.html(
        f'<div class="gauge {word}"><div class="track" role="meter" aria-label="GPU memory at the '
        f'peak" aria-valuemin="0" aria-valuemax="{unit.value(used.budget_bytes):.1f}" '
        f'aria-valuenow="{unit.value(most_now):.1f}" aria-valuetext="{peak} of {total}">'
        f'<i class="used" style="width:{full}"></i>'
        f'<i class="range" style="left:{low};right:calc(100% - {high})"></i>'
        f'<i class="card" style="left:{card}"></i></div>'
        f"<p><span>{rest}<b>{peak}</b> of {total} · {percent(used.share)}{between}</span>"
        "</p></div>"
    )
