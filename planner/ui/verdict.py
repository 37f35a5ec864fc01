"""The answer first: one sentence, the figures beside it, and what decides it."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from planner.cost import Cost
from planner.footprint import Footprint, Phase
from planner.formulas.compute import time_error
from planner.plan.facts import facts_of
from planner.ui.display import UNKNOWN, Unit, interval, percent
from planner.ui.tables import phase_name
from planner.units import read_seconds, read_usd

SHOWN_CATEGORIES = 3


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
    low, high, sentence = time_error(facts_of(footprint.plan, footprint.speeds).gpu)
    cards = st.grid(6, min_column_width=105)
    cards.metric(
        "GPU peak",
        unit.read(footprint.device_bytes),
        delta=f"{percent(footprint.device_bytes / footprint.budget_bytes)} of card",
        delta_arrow="off",
        delta_color=_color(footprint),
        border=True,
        help="What the driver sees at the worst moment: PyTorch's reserved memory, the CUDA "
        "context and whatever sits beside it. The card has "
        f"{unit.read(footprint.budget_bytes)}, as the driver reports it.",
    )
    cards.cell(column_span=2).metric(
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
        delta=f"× {low:.1f} to {high:.1f}",
        delta_arrow="off",
        delta_color="off",
        border=True,
        help="Operations and bytes against the card's peak rates (a roofline). "
        f"{sentence} Source: {footprint.seconds_source}.",
    )
    cards.metric(
        "Cost of run",
        UNKNOWN if cost.usd_run is None else f"≈ {read_usd(cost.usd_run)}",
        delta="price not known" if cost.hours_run is None else read_seconds(cost.hours_run * 3600),
        delta_arrow="off",
        delta_color="off",
        border=True,
        help=_price(cost),
    )
    cards.metric(
        "Host RAM",
        UNKNOWN if footprint.host_bytes is None else unit.read(footprint.host_bytes),
        delta="per node",
        delta_arrow="off",
        delta_color="off",
        border=True,
        help="Most of any phase: loading, offloading and checkpoint saving take memory of the "
        "node, not of the GPU.",
    )
    error = footprint.error
    known = f"{interval(error.low, error.high)}; " if error.low is not None else ""
    st.caption(f"Error of the peak: {known}{error.source.rstrip('.')}.  \n{_price_line(cost)}")


def _color(footprint: Footprint) -> Literal["green", "orange", "red"]:
    if footprint.verdict.word == "fits":
        return "green"
    return "orange" if footprint.verdict.word == "tight" else "red"


def _price_line(cost: Cost) -> str:
    if cost.price_per_gpu_hour is None:
        return "Price: nobody has listed one for this card; type yours under Time and money."
    per_hour = f"Price: {read_usd(cost.price_per_gpu_hour)} per GPU-hour"
    if not cost.price_date:
        return f"{per_hour}, typed in."
    old = " :orange-badge[older than 60 days]" if cost.price_is_old else ""
    return f"{per_hour}, middle of the list prices of {cost.price_date}.{old}"


def _price(cost: Cost) -> str:
    if cost.price_per_gpu_hour is None:
        return "Nobody's price for this card is known; type one in under Time and money."
    old = " **Older than 60 days; check it.**" if cost.price_is_old else ""
    return (
        f"{read_usd(cost.price_per_gpu_hour)} per GPU-hour, {cost.price_source} "
        f"({cost.price_date}).{old} GPU hours only; storage and traffic are not counted."
    )


def what_decides(footprint: Footprint, unit: Unit) -> None:
    """What fills the card at the worst moment: its largest categories and their largest terms."""
    worst = footprint.worst
    sums = sorted(worst.by_category().items(), key=lambda row: -row[1])[:SHOWN_CATEGORIES]
    parts = [
        f"**{category}** {unit.read(size)} ({percent(size / worst.device_bytes)}"
        f"{_largest(worst, category, size, unit)})"
        for category, size in sums
    ]
    others = [phase for phase in footprint.phases if phase is not worst]
    ranked = sorted(others, key=lambda phase: -phase.device_bytes)[:1]
    runner = "".join(
        f" The next phase, {phase_name(second.name, second.rank)}, needs "
        f"{unit.read(second.device_bytes)}."
        for second in ranked
    )
    st.markdown(
        f"**What decides it.** At the worst moment ({worst.instant}): {'; '.join(parts)}.{runner}"
    )


def _largest(phase: Phase, category: str, size: int, unit: Unit) -> str:
    """The term that is most of a category, unless the category is that term alone."""
    own = [term for term in phase.terms if term.category == category and not term.host]
    first = max(own, key=lambda term: int(term.bytes))
    if int(first.bytes) == size:
        return f", {first.name} of the {first.role}"
    return f", of it {unit.read(int(first.bytes))} {first.name} of the {first.role}"


def cautions(footprint: Footprint) -> None:
    """Blockers, warnings, and what was understood."""
    for text in footprint.blockers:
        st.error(text, icon=":material/block:")
    for text in footprint.warnings:
        st.warning(text, icon=":material/info:")
    if footprint.notes:
        with st.expander("What this estimate assumes", icon=":material/notes:", key="assumes"):
            st.markdown("\n".join(f"- {text}" for text in footprint.notes))
