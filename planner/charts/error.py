"""Error bars and bands: what a prediction stands for, by what was measured of its kind."""

from __future__ import annotations

import altair as alt
import pandas as pd

END = 12
"""Pixels of a bar's ends."""


def error_bars(totals: pd.DataFrame, y: alt.Y, unit: str, ink: str) -> list[alt.Chart]:
    """A line with two ends over each phase with a measured error; nothing where none has one.

    Args:
        totals: columns ``phase``, ``least`` and ``most``, the latter None where nobody measured.
        y: the phases' axis.
        unit: name of the unit.
        ink: colour.
    """
    known = totals.dropna(subset=["least", "most"])
    if known.empty:
        return []
    base = alt.Chart(known).encode(
        y=y,
        tooltip=[
            alt.Tooltip("phase:N", title="phase"),
            alt.Tooltip("least:Q", title=f"by what was measured, from, {unit}", format=",.2f"),
            alt.Tooltip("most:Q", title="to", format=",.2f"),
        ],
    )
    line = base.mark_rule(color=ink, strokeWidth=2).encode(x="least:Q", x2="most:Q")
    ends = [
        base.mark_tick(color=ink, thickness=2, size=END).encode(x=f"{end}:Q")
        for end in ("least", "most")
    ]
    return [line, *ends]


def error_band(rows: pd.DataFrame, x: alt.X, color: alt.Color) -> list[alt.Chart]:
    """A band around each curve with measured errors; nothing where none has one.

    Args:
        rows: columns ``least`` and ``most`` beside those of ``x`` and ``color``.
        x: the axis.
        color: the curves' colours.
    """
    known = rows.dropna(subset=["least", "most"])
    if known.empty:
        return []
    band = (
        alt.Chart(known).mark_area(opacity=0.2).encode(x=x, y="least:Q", y2="most:Q", color=color)
    )
    return [band]
