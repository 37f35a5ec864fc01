"""The answer first: one sentence, the figures beside it, and what decides it."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from planner.cost import Cost
from planner.facts import facts_of
from planner.footprint import Footprint
from planner.formulas.compute import time_error
from planner.ui.display import UNKNOWN, Unit, interval, percent
from planner.ui.tables import phase_name
from planner.units import read_seconds, read_usd

SHOWN_TERMS = 3


def sentence(footprint: Footprint) -> None:
    """The verdict, in words, with an icon and a colour."""
    text = f"**{footprint.verdict.sentence.rstrip('.')}.**"
    if footprint.verdict.word == "fits":
        st.success(text, icon=":material/check_circle:")
    elif footprint.verdict.word == "tight":
        st.warning(text, icon=":material/warning:")
    else:
        st.error(text, icon=":material/cancel:")


def figures(footprint: Footprint, cost: Cost, unit: Unit) -> None:
    """The row of metrics."""
    worst = footprint.worst
    low, high, sentence = time_error(facts_of(footprint.plan).gpu)
    cards = st.grid(5, min_column_width=150)
    cards.metric(
        "Peak per GPU",
        unit.read(worst.device_bytes),
        delta=f"{percent(worst.device_bytes / footprint.budget_bytes)} of "
        f"{unit.read(footprint.budget_bytes)}",
        delta_arrow="off",
        delta_color=_color(footprint),
        border=True,
        help="What the driver sees at the worst moment: PyTorch's reserved memory, the CUDA "
        "context and whatever sits beside it. The capacity is what the driver reports.",
    )
    cards.metric(
        "Worst phase",
        phase_name(worst.name, worst.rank),
        delta=worst.instant,
        delta_arrow="off",
        delta_color="off",
        border=True,
        help="A step is a row of phases; the one with the highest peak decides.",
    )
    cards.metric(
        "Step time",
        UNKNOWN if footprint.step_seconds is None else f"≈ {read_seconds(footprint.step_seconds)}",
        delta=f"{low:.1f} to {high:.1f} times that",
        delta_arrow="off",
        delta_color="off",
        border=True,
        help="Operations and bytes against the card's peak rates, with the shares of the peak "
        f"that published runs reached (a roofline). {sentence}",
    )
    cards.metric(
        "Cost of the run",
        UNKNOWN if cost.usd_run is None else f"≈ {read_usd(cost.usd_run)}",
        delta="price not known" if cost.hours_run is None else read_seconds(cost.hours_run * 3600),
        delta_arrow="off",
        delta_color="off",
        border=True,
        help=_price(cost),
    )
    cards.metric(
        "Host RAM per node",
        UNKNOWN if footprint.host_bytes is None else unit.read(footprint.host_bytes),
        delta="most of any phase",
        delta_arrow="off",
        delta_color="off",
        border=True,
        help="Loading, offloading and checkpoint saving take memory of the node, not the GPU.",
    )
    error = footprint.error
    known = f"{interval(error.low, error.high)}; " if error.low is not None else ""
    st.caption(f"Error of the peak: {known}{error.source.rstrip('.')}.")


def _color(footprint: Footprint) -> Literal["green", "orange", "red"]:
    if footprint.verdict.word == "fits":
        return "green"
    return "orange" if footprint.verdict.word == "tight" else "red"


def _price(cost: Cost) -> str:
    if cost.price_per_gpu_hour is None:
        return "Nobody's price for this card is known; type one in under Time and money."
    old = " **Older than 60 days; check it.**" if cost.price_is_old else ""
    return (
        f"{read_usd(cost.price_per_gpu_hour)} per GPU-hour, {cost.price_source} "
        f"({cost.price_date}).{old} GPU hours only; storage and traffic are not counted."
    )


def what_decides(footprint: Footprint, unit: Unit) -> None:
    """The worst phase's biggest terms, in a sentence."""
    worst = footprint.worst
    own = sorted((t for t in worst.terms if not t.host), key=lambda t: -int(t.bytes))
    shown = own[:SHOWN_TERMS]
    share = sum(int(term.bytes) for term in shown) / max(worst.device_bytes, 1)
    parts = [f"**{term.name}** of the {term.role} ({unit.read(int(term.bytes))})" for term in shown]
    listed = ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else parts[0]
    ranked = sorted(footprint.phases, key=lambda phase: -phase.device_bytes)
    runner = ""
    if len(ranked) > 1:
        second = ranked[1]
        runner = (
            f" The next phase, {phase_name(second.name, second.rank)}, needs "
            f"{unit.read(second.device_bytes)}."
        )
    st.markdown(
        f"**What decides it.** At the worst moment ({worst.instant}), {percent(share)} is "
        f"{listed}.{runner}"
    )


def cautions(footprint: Footprint) -> None:
    """Blockers, warnings, and what was understood."""
    for text in footprint.blockers:
        st.error(text, icon=":material/block:")
    for text in footprint.warnings:
        st.warning(text, icon=":material/info:")
    if footprint.notes:
        with st.expander("What this estimate assumes", icon=":material/notes:", key="assumes"):
            st.markdown("\n".join(f"- {text}" for text in footprint.notes))
