"""Memory or time along one axis of the plan, a curve per plan. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from planner.charts.marks import INK, capacity_line, error_band, finished, nearest, tooltip

PLAN_COLORS = ("#0072B2", "#E69F00")
"""Plan A and plan B."""

BILLIONS = "replace(format(datum.value, '.3~s'), 'G', 'B')"
"""Parameters as people say them: 7.62B."""

APART = 1.3
"""Labels of values nearer than this would touch."""

CURVE = 400
WIDEST = 2.0
"""Of the highest point, what a band may raise the axis by where no line of a card needs more."""


def curves(
    rows: pd.DataFrame,
    *,
    x_title: str,
    y_title: str,
    capacities: Sequence[tuple[str, float]] = (),
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
        capacities: lines with their names (a card, an engine's pool) and heights; none for times
            and ratios.
        unit: of the capacities.
        marked: the present plans' own places on the axis, drawn as faint lines.
        ink: colour of lines and words.
    """
    plans = list(dict.fromkeys(rows["plan"]))
    ticks = sorted(set(rows["x"]))
    near = nearest("x", clear="pointerout")
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
    legend = alt.Legend(
        title=None, orient="bottom", symbolType="circle", symbolStrokeWidth=0, labelLimit=300
    )
    color = alt.Color(
        "plan:N",
        scale=alt.Scale(domain=plans, range=list(PLAN_COLORS[: len(plans)])),
        legend=legend if len(plans) > 1 else None,
    )
    top = WIDEST * float(rows["y"].max())
    cut = not capacities and bool((rows["most"] > top).any())
    scale = alt.Scale(zero=True, domainMax=top) if cut else alt.Scale(zero=True)
    base = alt.Chart(rows).encode(x=x, y=alt.Y("y:Q", title=y_title, scale=scale), color=color)
    dash = alt.StrokeDash(
        "plan:N", scale=alt.Scale(domain=plans, range=[[1, 0], [7, 3]]), legend=None
    )
    signs = alt.Legend(title=None, orient="top", symbolFillColor=ink, symbolStrokeColor=ink)
    words = {"fits": "circle", "tight": "square", "out of memory": "cross"}
    points = base.mark_point(size=70, filled=True, opacity=1).encode(
        shape=alt.Shape(
            "word:N",
            scale=alt.Scale(domain=list(words), range=list(words.values())),
            legend=signs if rows["word"].ne("").any() else None,
        ),
        size=alt.when(near).then(alt.value(150)).otherwise(alt.value(60)),
        tooltip=tooltip(
            ("plan:N", "plan"),
            ("x:Q", x_title, ","),
            ("y:Q", y_title, ",.4~g"),
            ("word:N", "verdict"),
            ("detail:N", "worst phase"),
        ),
    )
    lines = base.mark_line(strokeWidth=2.5).encode(strokeDash=dash)
    layers: list[Any] = [*error_band(rows, x, color), lines, points.add_params(near)]
    if marked:
        here = alt.Chart(pd.DataFrame({"x": list(dict.fromkeys(marked))}))
        layers.insert(0, here.mark_rule(color=ink, opacity=0.25, strokeWidth=2).encode(x="x:Q"))
    aside = {"align": "left", "dx": 5, "dy": -7}
    for name, height in capacities:
        label = f"{name}: {height:,.1f} {unit}"
        layers += capacity_line("y", height, label, ink, {"x": alt.value(0)}, **aside)
    chart: alt.LayerChart = finished(layers, height=CURVE).resolve_scale(shape="independent")
    return chart


def _spread(ticks: Sequence[float], most: int = 12) -> list[float]:
    """At most so many of the values, the largest included, so that labels do not collide."""
    apart = [ticks[-1]]
    for tick in reversed(ticks[:-1]):
        if apart[-1] / tick >= APART:
            apart.append(tick)
    step = -(-len(apart) // most)
    return sorted(apart[::step])
