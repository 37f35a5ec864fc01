"""What a plan comes to with one optimization changed: bars from the plan's figure to the other.

Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd

from planner.charts.marks import COLORS, INK, OVER, colored, finished, tooltip

KINDS = {"less": COLORS["optimizer"], "more": OVER, "nothing": COLORS["allocator"]}
"""Colours by what a change does; the word is in each bar's text too."""
ROW = 42
BAR = 13
AROUND = 70
"""Pixels of a row with its name above its bar, of the bar, and below: the axis and its title."""
WIDEST = 1.5
"""Of the plan's figure or the limit: what is longer leaves the axis, and its text says by how much.

One change in a thousand would press all others flat.
"""
AFTER = 1.2
"""Of what the bars span: room behind them for a text."""
NAME = 0.6
"""Of the axis, what a name takes."""
LEAST = 0.002
"""Of the plan's figure: what is less is nothing to a reader."""


def height(changes: int) -> int:
    """Pixels of the whole chart of so many changes."""
    return ROW * changes + AROUND


def bars(
    names: list[str], values: list[float], size: float, read: Callable[[float], str]
) -> pd.DataFrame:
    """Rows of :func:`ablation`.

    Args:
        names: of the plan, then of the changes.
        values: the figure of each.
        size: of the axis's unit.
        read: a figure as it is read.
    """
    plan, *others = values
    rows = []
    for name, value in zip(names[1:], others, strict=True):
        kind, sign = ("more", "+") if value > plan else ("less", "−")
        text = f"{sign}{read(abs(value - plan))} ({read(value)})"
        if abs(value - plan) <= LEAST * plan:
            kind, text = "nothing", "no change"
        row = {"name": name, "plan": plan / size, "value": value / size}
        rows.append({**row, "kind": kind, "text": text})
    return pd.DataFrame(rows)


def ablation(
    rows: pd.DataFrame,
    *,
    title: str,
    ink: str = INK["light"],
    capacity: float | None = None,
) -> alt.LayerChart:
    """A bar a change, from the plan's upright line; the axis is cut to where the bars are.

    Args:
        rows: of :func:`bars`.
        title: of the axis, with its unit and the lines' meaning.
        ink: colour of words and lines.
        capacity: a limit to draw, in the axis's unit.
    """
    plan = float(rows["plan"].iloc[0])
    lines = [plan, *([] if capacity is None else [capacity])]
    top = max(*lines, min(float(rows["value"].max()), WIDEST * max(lines)))
    low = min(*lines, float(rows["value"].min()))
    span = (top - low) or plan or 1.0
    domain = [low, top + AFTER * span]
    # Names begin at the plan's line, or behind the limit where that would cross them.
    begins = max(line for line in lines if line - plan < NAME * (domain[1] - low))
    cut = rows["value"].clip(upper=top)
    off = rows["text"].where(rows["value"] <= top, rows["text"] + " →")
    rows = rows.assign(to=cut, end=cut.clip(lower=plan), text=off)
    y = alt.Y("name:N", sort=list(rows["name"]), axis=None)
    x = alt.X("plan:Q", title=title, scale=alt.Scale(domain=domain, nice=False, zero=False))
    kinds = [kind for kind in KINDS if kind in set(rows["kind"])]
    hover = tooltip(("name:N", "plan"), ("text:N", "does"))
    base = alt.Chart(rows)
    words: dict[str, Any] = {
        "align": "left", "baseline": "middle", "fontSize": 12, "color": ink
    }  # fmt: skip
    layers = [
        base.mark_bar(height=BAR, yOffset=8).encode(
            y=y, x=x, x2="to:Q", color=colored("kind:N", kinds, KINDS), tooltip=hover
        ),
        base.mark_text(dx=5, dy=8, **words).encode(y=y, x="end:Q", text="text:N"),
        base.mark_text(dx=5, dy=-9, **words).encode(y=y, x=alt.datum(begins), text="name:N"),
    ]
    for place, dash in zip(lines, ([1, 0], [6, 4]), strict=False):
        line = alt.Chart(pd.DataFrame({"line": [place]}))
        rule = line.mark_rule(strokeDash=dash, strokeWidth=2, color=ink)
        layers.append(rule.encode(x="line:Q"))
    return finished(layers, ink)
