"""Each phase's peak as a bar of its parts, against the card. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from planner.charts.marks import (
    INK,
    OVER,
    by_category,
    capacity_line,
    chosen_in_legend,
    error_bars,
    finished,
    tooltip,
)
from planner.footprint import CATEGORIES

WORDS: Mapping[str, str] = {"fits": "✓ fits", "tight": "! tight", "out of memory": "✕ too much"}
"""The verdict as the end of a bar says it."""

BAR = 26
ROW = 34


def phase_bars(
    rows: pd.DataFrame, *, capacity: float, unit: str, ink: str = INK["light"]
) -> alt.LayerChart:
    """One bar per phase, stacked by category, against the card's capacity.

    Args:
        rows: columns ``phase``, ``category``, ``memory``, ``total``, ``word``, ``detail``, and
            ``least`` and ``most`` (None where there are none); one row per
            phase and category, phases in their order.
        capacity: what the card holds, in the unit of ``memory``.
        unit: name of that unit.
        ink: colour of the capacity line and the words.
    """
    order = list(dict.fromkeys(rows["phase"]))
    present = [category for category in CATEGORIES if category in set(rows["category"])]
    rows = rows.assign(rank=[CATEGORIES.index(category) for category in rows["category"]])
    most = max(capacity, float(rows["total"].max()), *rows["most"].dropna())
    chosen, opacity = chosen_in_legend()
    y = alt.Y("phase:N", sort=order, title=None, axis=alt.Axis(labelLimit=190, ticks=False))
    x = alt.X(
        "sum(memory):Q",
        title=f"memory per GPU at the phase's peak, {unit}",
        scale=alt.Scale(domain=[0, most * 1.22], nice=False),
        axis=alt.Axis(tickCount=6, grid=True),
    )
    bars = (
        alt.Chart(rows)
        .mark_bar(height=BAR, stroke="#00000022", strokeWidth=0.5)
        .encode(
            y=y,
            x=x,
            color=by_category(present),
            order=alt.Order("rank:Q"),
            opacity=opacity,
            tooltip=tooltip(
                ("phase:N", "phase"),
                ("category:N", "what"),
                ("memory:Q", unit, ",.2f"),
                ("total:Q", f"phase's peak, {unit}", ",.2f"),
                ("detail:N", "at"),
            ),
        )
        .add_params(chosen)
    )
    totals = rows.drop_duplicates("phase")[["phase", "total", "word", "least", "most"]]
    totals = totals.assign(
        end=totals[["total", "most"]].max(axis="columns"),
        text=totals["total"].map("{:,.1f}  ".format) + totals["word"].map(WORDS),
    )
    color = alt.condition("datum.word == 'out of memory'", alt.value(OVER), alt.value(ink))
    words = (
        alt.Chart(totals)
        .mark_text(align="left", dx=6, fontSize=12)
        .encode(y=y, x="end:Q", text="text:N", color=color)
    )
    label = f"card: {capacity:,.1f} {unit}"
    aside = {"align": "right", "dx": -5, "dy": -6, "baseline": "bottom"}
    card = capacity_line("x", capacity, label, ink, {"y": alt.value(0)}, **aside)
    layers = [bars, *error_bars(totals, y, unit, ink), words, *card]
    return finished(layers, height=ROW * len(order), padding={"top": 5, "right": 5})


def height(phases: int) -> int:
    """Pixels of the whole chart of so many phases: bars, legend and axis."""
    return ROW * phases + 150
