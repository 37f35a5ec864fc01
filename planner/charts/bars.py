"""Tidy rows → Altair charts. Imports no Streamlit, so a chart can be saved from anywhere.

Colour is never the only signal: bars carry a word, curves different dashes and marks,
and the capacity line a label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from planner.charts.error import error_band, error_bars
from planner.footprint import CATEGORIES

COLORS: Mapping[str, str] = {
    "parameters": "#0072B2",
    "gradients": "#56B4E9",
    "optimizer": "#009E73",
    "activations": "#E69F00",
    "logits": "#CC79A7",
    "kv-cache": "#F0E442",
    "buffers": "#8C8C8C",
    "allocator": "#BDBDBD",
    "engine": "#A89B2D",
    "device": "#616161",
}
"""Okabe and Ito's colours, greys for overheads, a dark yellow for the engine's share."""

OVER = "#D55E00"
"""Kept for what exceeds the card."""

PLAN_COLORS = ("#0072B2", "#E69F00")
"""Plan A and plan B."""

WORDS: Mapping[str, str] = {"fits": "✓ fits", "tight": "! tight", "out of memory": "✕ too much"}
"""The verdict as the end of a bar says it."""

INK = {"light": "#1B1F24", "dark": "#E6EAEE"}
"""Colour of lines and words drawn over a chart, by appearance."""

BILLIONS = "replace(format(datum.value, '.3~s'), 'G', 'B')"
"""Parameters as people say them: 7.62B."""

APART = 1.3
"""Labels of values nearer than this would touch."""

BAR = 26
ROW = 34
CURVE = 400


def by_category(present: Sequence[str]) -> alt.Color:
    """Colour and legend of the categories that a chart shows, in their order."""
    return alt.Color(
        "category:N",
        scale=alt.Scale(domain=list(present), range=[COLORS[name] for name in present]),
        legend=alt.Legend(title=None, orient="top", columns=3, symbolType="square", labelLimit=120),
    )


def phase_bars(
    rows: pd.DataFrame, *, capacity: float, unit: str, ink: str = INK["light"]
) -> alt.LayerChart:
    """One bar per phase, stacked by category, against the card's capacity.

    Args:
        rows: columns ``phase``, ``category``, ``memory``, ``total``, ``word``, ``detail``, and
            ``least`` and ``most`` (by measured errors; None where there are none); one row per
            phase and category, phases in their order.
        capacity: what the card holds, in the unit of ``memory``.
        unit: name of that unit.
        ink: colour of the capacity line and the words.
    """
    order = list(dict.fromkeys(rows["phase"]))
    present = [category for category in CATEGORIES if category in set(rows["category"])]
    rank = {category: place for place, category in enumerate(CATEGORIES)}
    rows = rows.assign(rank=[rank[category] for category in rows["category"]])
    most = max(capacity, float(rows["total"].max()), *rows["most"].dropna())
    chosen = alt.selection_point(name="component", fields=["category"], bind="legend")
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
            opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.2)),
            tooltip=[
                alt.Tooltip("phase:N", title="phase"),
                alt.Tooltip("category:N", title="what"),
                alt.Tooltip("memory:Q", title=unit, format=",.2f"),
                alt.Tooltip("total:Q", title=f"phase's peak, {unit}", format=",.2f"),
                alt.Tooltip("detail:N", title="at"),
            ],
        )
        .add_params(chosen)
    )
    totals = rows.drop_duplicates("phase")[["phase", "total", "word", "least", "most"]]
    totals = totals.assign(
        end=totals[["total", "most"]].max(axis="columns"),
        text=[
            f"{total:,.1f}  {WORDS[word]}"
            for total, word in zip(totals["total"], totals["word"], strict=True)
        ],
    )
    words = (
        alt.Chart(totals)
        .mark_text(align="left", dx=6, fontSize=12)
        .encode(
            y=y,
            x="end:Q",
            text="text:N",
            color=alt.condition("datum.word == 'out of memory'", alt.value(OVER), alt.value(ink)),
        )
    )
    capacity_line = _capacity_line("x", capacity, unit, ink)
    chart: alt.LayerChart = (
        alt.layer(bars, *error_bars(totals, y, unit, ink), words, *capacity_line)
        .properties(height=ROW * len(order), width="container", padding={"top": 5, "right": 5})
        .configure_view(strokeWidth=0)
    )
    return chart


def height(phases: int) -> int:
    """Pixels of the whole chart of so many phases: bars, legend and axis."""
    return ROW * phases + 150


def _capacity_line(channel: str, capacity: float, unit: str, ink: str) -> list[alt.Chart]:
    data = pd.DataFrame({"capacity": [capacity], "label": [f"card: {capacity:,.1f} {unit}"]})
    base = alt.Chart(data)
    if channel == "x":
        rule = base.mark_rule(strokeDash=[6, 4], strokeWidth=2, color=ink).encode(x="capacity:Q")
        text = base.mark_text(align="right", dx=-5, dy=-6, baseline="bottom", color=ink).encode(
            x="capacity:Q", y=alt.value(0), text="label:N"
        )
    else:
        rule = base.mark_rule(strokeDash=[6, 4], strokeWidth=2, color=ink).encode(y="capacity:Q")
        text = base.mark_text(align="left", dx=5, dy=-7, color=ink).encode(
            y="capacity:Q", x=alt.value(0), text="label:N"
        )
    return [rule, text]


def curves(
    rows: pd.DataFrame,
    *,
    x_title: str,
    y_title: str,
    capacities: Mapping[str, float] | None = None,
    unit: str = "",
    marked: Sequence[float] = (),
    ink: str = INK["light"],
) -> alt.LayerChart:
    """One curve per plan over a logarithmic axis.

    Args:
        rows: columns ``x``, ``y``, ``plan``, ``word`` (a verdict or nothing), ``detail``, and
            ``least`` and ``most`` of ``y`` by measured errors (empty where there are none).
        x_title: what the axis counts.
        y_title: what is read off, unit included.
        capacities: a line per card, name to height; none for times and ratios.
        unit: of the capacities.
        marked: the present plans' own places on the axis, drawn as faint lines.
        ink: colour of lines and words.
    """
    plans = list(dict.fromkeys(rows["plan"]))
    ticks = sorted(set(rows["x"]))
    near = alt.selection_point(
        name="near", nearest=True, on="pointerover", fields=["x"], empty=False, clear="pointerout"
    )
    x = alt.X(
        "x:Q",
        title=x_title,
        scale=alt.Scale(type="log", base=2, nice=False, padding=14),
        axis=alt.Axis(
            values=_spread(ticks),
            labelExpr=BILLIONS if max(ticks) >= 1e6 else "format(datum.value, ',')",
            grid=False,
        ),
    )
    color = alt.Color(
        "plan:N",
        scale=alt.Scale(domain=plans, range=list(PLAN_COLORS[: len(plans)])),
        legend=alt.Legend(
            title=None, orient="bottom", symbolType="circle", symbolStrokeWidth=0, labelLimit=300
        )
        if len(plans) > 1
        else None,
    )
    base = alt.Chart(rows).encode(
        x=x, y=alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=True)), color=color
    )
    dash = alt.StrokeDash(
        "plan:N", scale=alt.Scale(domain=plans, range=[[1, 0], [7, 3]]), legend=None
    )
    lines = base.mark_line(strokeWidth=2.5).encode(strokeDash=dash)
    points = base.mark_point(size=70, filled=True, opacity=1).encode(
        shape=alt.Shape(
            "word:N",
            scale=alt.Scale(
                domain=["fits", "tight", "out of memory"], range=["circle", "square", "cross"]
            ),
            legend=alt.Legend(title=None, orient="top", symbolFillColor=ink, symbolStrokeColor=ink)
            if rows["word"].ne("").any()
            else None,
        ),
        size=alt.when(near).then(alt.value(150)).otherwise(alt.value(60)),
        tooltip=[
            alt.Tooltip("plan:N", title="plan"),
            alt.Tooltip("x:Q", title=x_title, format=","),
            alt.Tooltip("y:Q", title=y_title, format=",.4~g"),
            alt.Tooltip("word:N", title="verdict"),
            alt.Tooltip("detail:N", title="worst phase"),
        ],
    )
    layers: list[Any] = [*error_band(rows, x, color), lines, points.add_params(near)]
    if marked:
        here = alt.Chart(pd.DataFrame({"x": list(dict.fromkeys(marked))}))
        layers.insert(0, here.mark_rule(color=ink, opacity=0.25, strokeWidth=2).encode(x="x:Q"))
    for height in dict.fromkeys((capacities or {}).values()):
        layers.extend(_capacity_line("y", height, unit, ink))
    chart: alt.LayerChart = (
        alt.layer(*layers)
        .resolve_scale(shape="independent")
        .properties(height=CURVE, width="container")
        .configure_view(strokeWidth=0)
    )
    return chart


def _spread(ticks: Sequence[float], most: int = 12) -> list[float]:
    """At most so many of the values, the largest included, so that labels do not collide."""
    apart = [ticks[-1]]
    for tick in reversed(ticks[:-1]):
        if apart[-1] / tick >= APART:
            apart.append(tick)
    step = -(-len(apart) // most)
    return sorted(apart[::step])
