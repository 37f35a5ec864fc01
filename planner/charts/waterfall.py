"""What each optimization does by its own part: bytes and seconds, one bar upon the other.

Imports no Streamlit.
"""

from __future__ import annotations

import altair as alt
import pandas as pd

from planner.charts.marks import COLORS, INK, OVER, colored, finished, tooltip

KINDS = {
    "all of it": COLORS["device"],
    "less": COLORS["optimizer"],
    "more": OVER,
    "nothing": COLORS["allocator"],
}
"""Colours by what a step does; the word is in each bar's text too."""
ROW = 26
AROUND = 70
"""Pixels below the bars: the axis and its title."""
TEXT = 0.17
"""Of the chart's width: what a bar's text takes at most."""
LEAST = 0.002
"""Of the longest bar: what is shorter is nothing to a reader."""


def height(steps: int) -> int:
    """Pixels of the whole chart of so many steps."""
    return ROW * steps + AROUND


def bars(names: list[str], values: list[float], read: list[str], said: list[str]) -> pd.DataFrame:
    """Rows of :func:`waterfall`: the whole, then what each step changes.

    Args:
        names: of the steps, the first with nothing on.
        values: what stands after each step.
        read: those values as they are read.
        said: the changes as they are read; the first is not used.
    """
    longest = max(values)
    rows = []
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        before = values[place - 1] if place else 0.0
        kind = "all of it" if not place else "less" if value < before else "more"
        if place and abs(value - before) <= LEAST * longest:
            kind = "nothing"
        text = read[place] if not place else "nothing" if kind == "nothing" else said[place]
        start, end = (0.0, value) if not place else (min(before, value), max(before, value))
        rows.append(
            {
                "line": place,
                "name": name,
                "from": start,
                "to": end,
                "after": value,
                "read": read[place],
                "kind": kind,
                "text": text,
            }
        )
    return pd.DataFrame(rows)


def waterfall(
    rows: pd.DataFrame,
    *,
    title: str,
    ink: str = INK["light"],
    capacity: float | None = None,
    label: str = "",
) -> alt.LayerChart:
    """A bar a step, each beginning where the one before it ends; a thin line leads from it.

    Args:
        rows: of :func:`bars`.
        title: of the axis, with its unit.
        ink: colour of words and lines.
        capacity: a limit to draw, in the axis's unit.
        label: what the limit is; stands in the axis's title, where no bar can cross it.
    """
    labels = alt.Axis(title=None, labelLimit=190)
    y = alt.Y("name:N", sort=list(rows["name"]), axis=labels)
    longest = max(float(rows["to"].max()), capacity or 0.0)
    scale = alt.Scale(domain=[0, 1.28 * longest], nice=False)
    x = alt.X("from:Q", title=f"{title}{label and f', dashed: {label}'}", scale=scale)
    kinds = [kind for kind in KINDS if kind in set(rows["kind"])]
    color = colored("kind:N", kinds, KINDS)
    hover = tooltip(("name:N", "with"), ("text:N", "does"), ("read:N", "after it"))
    end = rows["to"]
    if capacity is not None:  # a text that the line would cross stands behind it
        crossed = (end < capacity) & (end > capacity - TEXT * 1.28 * longest)
        end = end.mask(crossed, capacity)
    base = alt.Chart(rows.assign(end=end))
    layers = [
        base.mark_bar(height=ROW - 10).encode(y=y, x=x, x2="to:Q", color=color, tooltip=hover),
        base.mark_tick(color=ink, thickness=2, size=ROW - 6).encode(y=y, x="after:Q"),
        base.mark_text(align="left", dx=5, baseline="middle", fontSize=12, color=ink).encode(
            y=y, x="end:Q", text="text:N"
        ),
    ]
    if capacity is not None:
        limit = alt.Chart(pd.DataFrame({"limit": [capacity]}))
        rule = limit.mark_rule(strokeDash=[6, 4], strokeWidth=2, color=ink)
        layers.append(rule.encode(x="limit:Q"))
    return finished(layers, ink)
