"""The pictures of the example cards: curves with a marked place, bars of options.

Their axes hold for every place of the slider below them, so nothing but what it says moves.
Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from planner.charts.marks import COLORS, INK, OVER, capacity_line, colored, finished, tooltip

PLOT = 230
"""Pixels of the curves' plot."""
AROUND = 150
"""Pixels of legend, axis and margins."""
BAR = 20
ROW = 30
MARKS = {"fits": "✓", "tight": "!", "out of memory": "✕"}
"""The verdict behind a bar's number; the axis has the words."""

PARTS = {
    "models": COLORS["parameters"],
    "work kept": COLORS["activations"],
    "the rest": COLORS["device"],
}
"""What memory is of, for somebody who knows no category, and the colour of each."""
CURVE_COLORS = (COLORS["activations"], COLORS["parameters"], COLORS["optimizer"], COLORS["logits"])
DASHES = ([1, 0], [6, 4])
"""What is planned, and what is claimed."""
ROOM = 1.4
"""Of the longest bar, for the column of numbers behind it."""


def part_of(category: str) -> str:
    """Which of :data:`PARTS` a category belongs to."""
    if category == "parameters":
        return "models"
    return "work kept" if category in ("activations", "logits") else "the rest"


def curves(
    rows: pd.DataFrame,
    at: float,
    *,
    x_title: str,
    y_title: str,
    capacity: float,
    label: str,
    ink: str = INK["light"],
) -> alt.LayerChart:
    """Curves over two logarithmic axes, one place marked on each.

    Args:
        rows: columns ``x``, ``y``, ``name``, ``claimed`` (true draws it dashed), by name and x.
        at: the marked place, one of the rows' ``x``.
        x_title: what the axis counts.
        y_title: what is read off, unit included.
        capacity: of the card or the machine, in the unit of ``y``.
        label: what the line of that height is called.
        ink: colour of lines and words.
    """
    names = list(dict.fromkeys(rows["name"]))
    dashed = dict(zip(rows["name"], rows["claimed"], strict=True))
    kinds = list(dict.fromkeys(name.partition(", ")[0] for name in names))
    shades = [CURVE_COLORS[kinds.index(name.partition(", ")[0])] for name in names]
    legend = alt.Legend(
        title=None, orient="bottom", columns=2, labelLimit=220, symbolType="stroke",
        symbolSize=500, symbolStrokeWidth=2.5,
    )
    least, most = float(rows["y"].min()), max(float(rows["y"].max()), capacity)
    span = [least * 0.7, most * 1.5]
    tens = [10.0**n for n in range(-3, 9) if span[0] <= 10.0**n <= span[1]]
    base = alt.Chart(rows).encode(
        x=alt.X(
            "x:Q",
            title=x_title,
            scale=alt.Scale(type="log", base=2, nice=False, padding=12),
            axis=alt.Axis(
                values=sorted(set(rows["x"])), format="~s", grid=False, labelOverlap=True
            ),
        ),
        y=alt.Y(
            "y:Q",
            title=y_title,
            scale=alt.Scale(type="log", domain=span, nice=False),
            axis=alt.Axis(values=tens, format=",~r"),
        ),
        color=alt.Color("name:N", scale=alt.Scale(domain=names, range=shades), legend=legend),
        strokeDash=alt.StrokeDash(
            "name:N",
            scale=alt.Scale(domain=names, range=[DASHES[bool(dashed[name])] for name in names]),
            legend=legend,
        ),
    )
    here = alt.Chart(pd.DataFrame({"x": [at]}))
    points = base.transform_filter(alt.datum.x == at).mark_point(size=90, filled=True, opacity=1)
    layers = [
        here.mark_rule(color=ink, opacity=0.3, strokeWidth=2).encode(x="x:Q"),
        base.mark_line(strokeWidth=2.5),
        points.encode(
            strokeDash=alt.Undefined,
            tooltip=tooltip(("name:N", "who"), ("x:Q", x_title, ","), ("y:Q", y_title, ",.4~g")),
        ),
        *capacity_line(
            "y", capacity, label, ink, {"x": alt.value("width")}, align="right", dx=-5, dy=10
        ),
    ]
    return finished(layers, ink, height=PLOT)


def options(
    rows: pd.DataFrame,
    *,
    capacity: float,
    most: float,
    unit: str,
    ink: str = INK["light"],
) -> alt.LayerChart:
    """A bar for each option, of :data:`PARTS`, against the card.

    Args:
        rows: columns ``name``, ``part``, ``memory``, ``total``, ``word``; one row per option
            and part, options in their order.
        capacity: what the card holds, in the unit of ``memory``.
        most: the longest bar at any place of the slider.
        unit: name of that unit.
        ink: colour of lines and words.
    """
    order: Sequence[str] = list(dict.fromkeys(rows["name"]))
    rows = rows.assign(rank=[[*PARTS].index(part) for part in rows["part"]])
    look = {"orient": "bottom", "columns": 3, "symbolType": "square"}
    y = alt.Y("name:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=150, ticks=False))
    bars = (
        alt.Chart(rows)
        .mark_bar(height=BAR)
        .encode(
            y=y,
            x=alt.X(
                "sum(memory):Q",
                title=f"one card, {unit} (✓ fits, ! tight, ✕ not)",
                scale=alt.Scale(domain=[0, max(most, capacity) * ROOM], nice=False),
                axis=alt.Axis(tickCount=5),
            ),
            color=colored("part:N", [*PARTS], PARTS, **look),
            order=alt.Order("rank:Q"),
            tooltip=tooltip(
                ("name:N", "option"),
                ("part:N", "what"),
                ("memory:Q", unit, ",.2f"),
                ("total:Q", f"in all, {unit}", ",.2f"),
            ),
        )
    )
    totals = rows.drop_duplicates("name")[["name", "total", "word"]]
    totals = totals.assign(
        text=totals["total"].map("{:,.1f} ".format) + totals["word"].map(MARKS)
    )
    color = alt.condition("datum.word == 'out of memory'", alt.value(OVER), alt.value(ink))
    words = (
        alt.Chart(totals)
        .mark_text(align="right", fontSize=12)
        .encode(y=y, x=alt.value("width"), text="text:N", color=color)
    )
    card = capacity_line(
        "x", capacity, f"card: {capacity:,.1f} {unit}", ink, {"y": alt.value(0)},
        align="left", dx=5, dy=-6, baseline="bottom",
    )
    height = ROW * len(order)
    return finished([bars, words, *card], ink, height=height, padding={"top": 5, "right": 5})
