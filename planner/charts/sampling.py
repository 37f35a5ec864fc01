"""Density-aware sampling: memory through its stages, and over numbers of prompts.

Imports no Streamlit. Colours mean what holds the memory; capacity is a dashed line with a label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from planner.charts.marks import (
    INK,
    capacity_line,
    colored,
    finished,
    keyed,
    nearest,
    tooltip,
)

PARTS: Mapping[str, str] = {
    "model": "#0072B2",
    "prompts": "#56B4E9",
    "embeddings": "#E69F00",
    "index": "#CC79A7",
    "search": "#009E73",
    "weights": "#F0E442",
    "libraries": "#8C8C8C",
    "driver": "#616161",
}
"""What holds memory, in the order that bars are stacked."""
MODES: Mapping[str, str] = {"online": "#0072B2", "offline": "#E69F00", "streaming": "#009E73"}
DASHES = {"online": [1, 0], "offline": [7, 3], "streaming": [2, 3]}
"""Colour and dashes of each mode's curve."""
ROW = 34
CURVE = 340
FAR_ABOVE = 12.0
"""A capacity so many times higher than the bars would press them flat: it is left out."""


def stage_bars(
    rows: pd.DataFrame, *, capacity: float | None, name: str, unit: str, ink: str = INK["light"]
) -> alt.LayerChart:
    """One bar a stage, in the order of time, stacked by what holds the memory.

    Args:
        rows: columns ``stage``, ``part``, ``memory``, ``total`` and ``time`` (words), one row for
            each stage and part.
        capacity: what there is, in the unit of ``memory``; None where nobody said.
        name: of the memory, such as host RAM.
        unit: of memory.
        ink: colour of the capacity line and the words.
    """
    order = list(dict.fromkeys(rows["stage"]))
    present = [part for part in PARTS if part in set(rows["part"])]
    rows = rows.assign(rank=[list(PARTS).index(part) for part in rows["part"]])
    most = float(rows["total"].max())
    drawn = capacity is not None and capacity <= FAR_ABOVE * most
    end = 1.22 * max(most, capacity or 0.0) if drawn else 1.22 * most
    y = alt.Y("stage:N", sort=order, title=None, axis=alt.Axis(labelLimit=170, ticks=False))
    x = alt.X(
        "sum(memory):Q",
        title=f"{name} at the stage's peak, {unit}",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(tickCount=5),
    )
    look = {"orient": "top", "columns": 2, "symbolType": "square"}
    bars = (
        alt.Chart(rows)
        .mark_bar(height=24, stroke="#00000022", strokeWidth=0.5)
        .encode(
            y=y,
            x=x,
            color=colored("part:N", present, PARTS, **look),
            order="rank:Q",
            tooltip=tooltip(
                ("stage:N", "stage"),
                ("part:N", "what"),
                ("sum(memory):Q", unit, ",.3f"),
                ("total:Q", f"in all, {unit}", ",.3f"),
                ("time:N", "time"),
            ),
        )
    )
    totals = rows.drop_duplicates("stage")
    labels = (
        alt.Chart(totals)
        .mark_text(align="left", dx=5, color=ink)
        .encode(y=y, x="total:Q", text=alt.Text("total:Q", format=",.2f"))
    )
    layers = [bars, labels]
    if drawn and capacity is not None:
        text = f"{capacity:,.1f} {unit}"
        layers += capacity_line(
            "x", capacity, text, ink, {"y": alt.value(-7)}, align="right", dx=-3
        )
    return finished(layers, ink, height=ROW * len(order))


def bars_height(stages: int) -> int:
    """Pixels of the bars with legend and axis."""
    return ROW * stages + 160


def growth(
    rows: pd.DataFrame,
    *,
    capacity: float | None,
    here: float,
    unit: str,
    ink: str = INK["light"],
) -> alt.LayerChart:
    """Host RAM over numbers of prompts, a curve for each mode, against what there is.

    Args:
        rows: columns ``prompts``, ``mode``, ``memory``, ``chosen`` (the plan's own mode or not).
        capacity: host RAM, in the unit of ``memory``; None where nobody said.
        here: the plan's own number of prompts.
        unit: of memory.
        ink: colour of lines and words.
    """
    modes: Sequence[str] = [mode for mode in MODES if mode in set(rows["mode"])]
    near = nearest("prompts", clear="pointerout")
    x = alt.X(
        "prompts:Q",
        title="prompts",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format="~s", grid=False, tickCount=6),
    )
    y = alt.Y(
        "memory:Q",
        title=f"host RAM at the peak, {unit}",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(format=",~g", tickCount=6),
    )
    color = colored("mode:N", modes, MODES, orient="bottom", symbolType="stroke")
    dashes = alt.StrokeDash("mode:N", scale=keyed(modes, DASHES))
    base = alt.Chart(rows).encode(x=x, y=y, color=color)
    lines = base.mark_line().encode(
        strokeDash=dashes, strokeWidth=alt.condition("datum.chosen", alt.value(3.5), alt.value(2))
    )
    points = (
        base.mark_point(filled=True, size=55)
        .encode(
            opacity=alt.when(near).then(alt.value(1)).otherwise(alt.value(0)),
            tooltip=tooltip(
                ("mode:N", "mode"),
                ("prompts:Q", "prompts", ","),
                ("memory:Q", f"host RAM, {unit}", ",.3~g"),
            ),
        )
        .add_params(near)
    )
    place = alt.Chart(pd.DataFrame({"prompts": [here]}))
    layers = [
        place.mark_rule(color=ink, opacity=0.25, strokeWidth=2).encode(x="prompts:Q"),
        lines,
        points,
    ]
    if capacity:
        layers += capacity_line(
            "y",
            capacity,
            f"host RAM: {capacity:,.1f} {unit}",
            ink,
            {"x": alt.value(0)},
            align="left",
            dx=5,
            dy=-7,
        )
    return finished(layers, ink, height=CURVE)
