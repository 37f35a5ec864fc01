"""Memory through one step, event by event: stacked by category, cut into phases.

Imports no Streamlit. Phases are told apart by lines with names, not by colour; colours
mean categories, as on every chart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from planner.charts.marks import (
    INK,
    by_category,
    capacity_line,
    chosen_in_legend,
    finished,
    nearest,
    tooltip,
)
from planner.term import CATEGORIES

PLOT = 300
"""Pixels of the plot itself."""
LEGEND_AND_AXIS = 150
LINE = 15
"""Pixels of one line of phase names."""
NARROWEST = 300
"""Pixels the plot is wide on a telephone; names must not collide there."""
LETTER = 6.2
"""Pixels of a letter of a phase's name."""
SHORTEST = 0.04
"""A phase that returns for less than this share of the step is not named again."""
SIDES: tuple[dict[str, Any], ...] = ({"align": "left", "dx": 4}, {"align": "right", "dx": -4})
"""How a name stands at its line, and how where it would leave the plot."""
BETWEEN = "between phases"
"""The phase of what is done outside every phase; it has no name in the chart."""
FAR_ABOVE = 3.0
"""A card so many times higher than the step would press it flat: it is written, not drawn."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A phase from one event to another; ``line`` is where its name is written, -1 nowhere."""

    phase: str
    first: float
    last: float
    line: int


def timeline(
    rows: pd.DataFrame, *, capacity: float, unit: str, ink: str = INK["light"]
) -> alt.LayerChart:
    """Live memory through one step.

    Args:
        rows: columns ``event``, ``phase``, ``op``, ``module``, ``total`` and one per category
            that holds anything, one row per point in order of events; memory in ``unit``.
        capacity: what the card holds, in ``unit``.
        unit: name of that unit.
        ink: colour of lines and words.
    """
    present: list[str] = [name for name in CATEGORIES if name in rows.columns]
    phases = stretches(rows)
    lines = 1 + max((stretch.line for stretch in phases), default=0)
    top = float(rows["total"].max())
    drawn = capacity <= FAR_ABOVE * top
    # Names stand above everything that is drawn, the capacity's label included.
    highest = (max(top, capacity) if drawn else top) * 1.06
    highest /= 1 - (lines * LINE + 24) / PLOT
    x = alt.X(
        "event:Q",
        title="events of one step: tensors made and freed, in order",
        scale=alt.Scale(domain=[0, float(rows["event"].max())], nice=False),
        axis=alt.Axis(grid=False, tickCount=5, format=",d", labelFlush=True),
    )
    y = alt.Y(
        "memory:Q",
        stack="zero",
        title=f"live memory per GPU, {unit}",
        scale=alt.Scale(domain=[0, highest], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    layers = [
        _areas(rows, present, x, y),
        *_phases(phases, float(rows["event"].max()) or 1.0, highest, ink),
        *_capacity(capacity, unit, ink, _at(lines * LINE + 24, highest), drawn),
        _hover(rows, present, unit, ink),
    ]
    return finished(layers, ink, height=PLOT, padding={"top": 5, "right": 8})


def height() -> int:
    """Pixels of the whole chart: plot, legend and axis."""
    return PLOT + LEGEND_AND_AXIS


def stretches(rows: pd.DataFrame) -> list[Stretch]:
    """Each phase's stretches, with lines for their names so that none run into another.

    What is done between phases is left out. A phase is named again only where another one came
    between and it lasts long enough.
    """
    whole = float(rows["event"].max()) or 1.0
    starts = rows[rows["phase"] != rows["phase"].shift()]
    ends = [*starts["event"].tolist()[1:], whole]
    free: list[float] = []
    named: set[str] = set()
    before = ""
    found = []
    for (_, row), last in zip(starts.iterrows(), ends, strict=True):
        first, phase = float(row["event"]), str(row["phase"])
        line = -1
        if phase == BETWEEN:
            continue
        again = phase in named and (phase == before or last - first < SHORTEST * whole)
        if not again:
            named.add(phase)
            long = _long(phase)
            left = _left(first / whole, long)
            line = next((at for at, end in enumerate(free) if end <= left), len(free))
            free[line : line + 1] = [left + long + 0.02]
        before = phase
        found.append(Stretch(phase, first, float(last), line))
    return found


def _left(start: float, long: float) -> float:
    """Where a name begins: at its line, or to the left of it where it would leave the plot."""
    return start if start + long <= 1 else max(0.0, start - long)


def _areas(rows: pd.DataFrame, present: list[str], x: alt.X, y: alt.Y) -> alt.Chart:
    chosen, opacity = chosen_in_legend()
    chart: alt.Chart = (
        alt.Chart(rows)
        .transform_fold([*present], as_=["category", "memory"])
        .transform_calculate(rank=f"indexof({json.dumps(present)}, datum.category)")
        .mark_area(interpolate="step-after", strokeWidth=0)
        .encode(
            x=x, y=y, color=by_category(present), order=alt.Order("rank:Q"), opacity=opacity
        )
        .add_params(chosen)
    )
    return chart


def _phases(phases: list[Stretch], whole: float, highest: float, ink: str) -> list[Any]:
    """A line where each phase begins, and its name at the line's upper end."""
    if not phases:
        return []
    data = pd.DataFrame(
        [
            {
                "event": one.first,
                "phase": one.phase,
                "from": _at(max(one.line, 0) * LINE + 4, highest),
                "to": 0.0,
                "named": one.line >= 0,
                "turned": _left(one.first / whole, _long(one.phase)) < one.first / whole,
            }
            for one in phases
        ]
    )
    rules = (
        alt.Chart(data)
        .mark_rule(color=ink, opacity=0.35, strokeWidth=1)
        .encode(x="event:Q", y="from:Q", y2="to:Q")
    )
    marks = [
        alt.Chart(part)
        .mark_text(**SIDES[bool(turned)], baseline="top", fontSize=11, color=ink)
        .encode(x="event:Q", y="from:Q", text="phase:N")
        for turned, part in data[data["named"]].groupby("turned")
    ]
    return [rules, *marks]


def _at(pixels: float, highest: float) -> float:
    """Height in memory of a place so many pixels below the plot's upper edge."""
    return highest * (1 - pixels / PLOT)


def _long(phase: str) -> float:
    """Share of the narrowest plot that a name takes."""
    return len(phase) * LETTER / NARROWEST


def _capacity(capacity: float, unit: str, ink: str, place: float, drawn: bool) -> list[Any]:
    """A dashed line with its label; only the label, at ``place``, where it is not drawn."""
    label = f"card: {capacity:,.1f} {unit}" + ("" if drawn else ", far above ↑")
    aside = {"align": "right", "baseline": "bottom", "dx": -4, "dy": -4, "fontSize": 11}
    at = {"x": alt.value("width")}
    rule, text = capacity_line("y", capacity if drawn else place, label, ink, at, **aside)
    return [rule, text] if drawn else [text]


def _hover(rows: pd.DataFrame, present: list[str], unit: str, ink: str) -> alt.Chart:
    """A line at the nearest point, with its op, module, phase and memory."""
    near = nearest("event")
    chart: alt.Chart = (
        alt.Chart(rows)
        .mark_rule(color=ink, strokeWidth=1.5)
        .encode(
            x="event:Q",
            opacity=alt.when(near).then(alt.value(0.8)).otherwise(alt.value(0)),
            tooltip=tooltip(
                ("phase:N", "phase"),
                ("op:N", "op"),
                ("module:N", "in"),
                ("total:Q", f"live, {unit}", ",.2f"),
                *((f"{name}:Q", name, ",.2f") for name in reversed(present)),
                ("event:Q", "event", ","),
            ),
        )
        .add_params(near)
    )
    return chart
