"""Each phase's peak as a bar of its parts, against the card. Imports no Streamlit.

A Vega-Lite specification as plain data: to build and check it with Altair takes longer than all
else of a page together. ``altair.Chart.from_dict`` saves it as a picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from planner.charts import bar_words
from planner.charts.bar_words import FONT
from planner.charts.marks import COLORS, END, GRID, INK, on_color
from planner.term import CATEGORIES

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.1.0.json"
"""The version's name; nobody asks that address."""
ROWS = "rows"
"""Name of the layer that is clicked."""
CHOSEN = "phase"
"""Name of the selection: the phase that is clicked."""

BAR = 22
ROW = 30
AXIS = 56
"""Pixels of the axis below the bars, with its title."""
OVERHEAD = "overhead"
ONE: Mapping[str, str] = dict.fromkeys(("buffers", "allocator", "device"), OVERHEAD)
"""Categories that are one to the eye: nobody plans with them apart, and the list of terms does."""
DRAWN = tuple(dict.fromkeys(ONE.get(name, name) for name in CATEGORIES))
HUES: Mapping[str, str] = {**COLORS, OVERHEAD: COLORS["buffers"]}


class Part(NamedTuple):
    """A stretch of a phase's bar; ``chosen`` bytes are what a setting takes, not a need."""

    phase: str
    category: str
    memory: float
    chosen: bool = False


class Peak(NamedTuple):
    """What a phase comes to: the bar's end, its interval, its word and its moment."""

    phase: str
    total: float
    least: float
    most: float
    word: str
    instant: str


def phase_bars(
    parts: Sequence[Part],
    peaks: Sequence[Peak],
    *,
    capacity: float,
    unit: str,
    ink: str = INK["light"],
    chosen: str = "",
) -> dict[str, Any]:
    """One bar per phase, stacked by category, what is chosen last, against the card's capacity.

    Args:
        parts: one per phase and category.
        peaks: one per phase, in their order.
        capacity: what the card holds, in the unit of all the sizes.
        unit: name of that unit.
        ink: colour of the capacity line and the words.
        chosen: the phase whose row is marked.
    """
    drawn = _stacked(parts)
    end = end_of(peaks, capacity)
    legend = bar_words.legend(drawn, ink)
    order = [peak.phase for peak in peaks]
    y = {
        "field": "phase",
        "type": "nominal",
        "sort": order,
        "title": None,
        "axis": {"labelLimit": 150, "ticks": False, "labelColor": ink, "labelFontSize": FONT},
        "scale": {"domain": order},
    }
    x = {
        "type": "quantitative",
        "title": f"memory per GPU at the phase's peak, {unit}",
        "scale": {"domain": [0, end], "nice": False, "zero": True},
        "axis": {"tickCount": 6, "gridColor": GRID[ink], "labelColor": ink, "titleColor": ink},
    }
    rows = [peak._asdict() for peak in peaks]
    by_phase = (
        _rows(rows, end, ink),
        *_bars(drawn, x, end, unit, ink, legend, capacity),
        *_intervals(rows, unit, ink),
        bar_words.words_beside(rows, ink),
    )
    return {
        "$schema": SCHEMA,
        "height": ROW * len(peaks),
        "width": "container",
        "padding": {"left": 0, "top": bar_words.above(drawn), "right": 4, "bottom": 0},
        "config": {"view": {"strokeWidth": 0}},
        "params": [_clicked(chosen)],
        "layer": [
            *({**layer, "encoding": {"y": y, **layer["encoding"]}} for layer in by_phase),
            *_card(capacity, end, unit, ink),
        ],
    }


def end_of(peaks: Sequence[Peak], capacity: float) -> float:
    """Where the axis ends: behind the card and every bar and interval."""
    return 1.02 * max(capacity, *(max(peak.total, peak.most) for peak in peaks))


def _stacked(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The parts from where to where; chosen ones behind all that is needed."""
    sums: dict[tuple[str, str, bool], float] = {}
    for part in parts:
        name = ONE.get(part.category, part.category)
        of = (part.phase, name, part.chosen)
        sums[of] = sums.get(of, 0.0) + part.memory
    ends: dict[str, float] = {}
    drawn = []
    for (phase, name, chosen), memory in sorted(
        sums.items(), key=lambda row: (row[0][2], DRAWN.index(row[0][1]))
    ):
        start = ends.get(phase, 0.0)
        ends[phase] = start + memory
        drawn.append(
            {
                "phase": phase,
                "category": f"{name}'s pool" if chosen else name,
                "text": "pool" if chosen else name,
                "memory": memory,
                "from": start,
                "to": ends[phase],
                "color": HUES[name],
                "ink": on_color(HUES[name]),
                "chosen": chosen,
            }
        )
    return drawn


def _clicked(chosen: str) -> dict[str, Any]:
    """The phase whose row was clicked, at first the chosen one."""
    select = {"type": "point", "fields": ["phase"], "toggle": False}
    given = {"value": [{"phase": chosen}]} if chosen else {}
    return {"name": CHOSEN, "select": select, "views": [ROWS], **given}


def _rows(rows: list[dict[str, Any]], end: float, ink: str) -> dict[str, Any]:
    """A row per phase, to click on; the chosen one is tinted."""
    tint = {"condition": {"param": CHOSEN, "empty": False, "value": 0.12}, "value": 0}
    return {
        "name": ROWS,
        "data": {"values": rows},
        "mark": {"type": "bar", "height": ROW, "color": ink, "cursor": "pointer"},
        "encoding": {"x": {"datum": 0}, "x2": {"datum": end}, "fillOpacity": tint},
    }


def _bars(
    drawn: list[dict[str, Any]],
    x: dict[str, Any],
    end: float,
    unit: str,
    ink: str,
    legend: dict[str, Any],
    capacity: float,
) -> list[dict[str, Any]]:
    """The parts, each with its name in it where there is room."""
    sizes = [
        {"field": "phase", "title": "phase"},
        {"field": "category", "title": "what"},
        {"field": "memory", "type": "quantitative", "title": unit, "format": ",.2f"},
    ]
    where = {"x": {**x, "field": "from"}, "x2": {"field": "to"}}
    needed = [row for row in drawn if not row["chosen"]]
    pool = [row for row in drawn if row["chosen"]]
    present = [name for name in DRAWN if any(row["category"] == name for row in needed)]
    color = {
        "field": "category",
        "type": "nominal",
        "scale": {"domain": present, "range": [HUES[name] for name in present]},
        "legend": legend,
    }
    mark = {"type": "bar", "height": BAR, "cursor": "pointer"}
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": needed},
            "mark": {**mark, "stroke": "#00000022", "strokeWidth": 0.5},
            "encoding": {**where, "color": color, "tooltip": sizes},
        }
    ]
    if pool:
        edge = {"stroke": pool[0]["color"], "strokeDash": [3, 2], "strokeWidth": 1.5}
        layers.append(
            {
                "data": {"values": pool},
                "mark": {**mark, "fill": pool[0]["color"], "fillOpacity": 0.15, **edge},
                "encoding": {**where, "tooltip": sizes},
            }
        )
    for named, color_of in ((needed, {"field": "ink", "scale": None}), (pool, {"value": ink})):
        layers.append(bar_words.names_in(named, color_of, end, capacity))
    return [layer for layer in layers if layer["data"]["values"]]


def _intervals(rows: list[dict[str, Any]], unit: str, ink: str) -> list[dict[str, Any]]:
    """A line with two ends over each phase whose least and most differ."""
    known = [row for row in rows if row["least"] < row["most"]]
    if not known:
        return []
    tooltip = [
        {"field": "phase", "title": "phase"},
        *(
            {"field": end, "type": "quantitative", "title": title, "format": ",.2f"}
            for end, title in (("least", f"between, {unit}"), ("most", "and"))
        ),
    ]
    data = {"values": known}
    line = {"x": _at("least"), "x2": {"field": "most"}, "tooltip": tooltip}
    rule = {"type": "rule", "color": ink, "strokeWidth": 2}
    tick = {"type": "tick", "color": ink, "thickness": 2, "size": END}
    return [
        {"data": data, "mark": rule, "encoding": line},
        *(
            {"data": data, "mark": tick, "encoding": {"x": _at(end), "tooltip": tooltip}}
            for end in ("least", "most")
        ),
    ]


def _at(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative"}


def _card(capacity: float, end: float, unit: str, ink: str) -> list[dict[str, Any]]:
    """A dashed line where the card ends, and its label above, on the side that has room."""
    values = [{"capacity": capacity, "label": f"card: {capacity:,.1f} {unit}"}]
    left = capacity > end / 2
    aside = {"align": "right" if left else "left", "dx": -5 if left else 5}
    x = {"field": "capacity", "type": "quantitative"}
    return [
        {
            "data": {"values": values},
            "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 2, "color": ink},
            "encoding": {"x": x},
        },
        {
            "data": {"values": values},
            "mark": {"type": "text", "color": ink, "dy": -6, "baseline": "bottom", **aside},
            "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "label"}},
        },
    ]


def height(spec: Mapping[str, Any]) -> int:
    """Pixels of the whole chart: bars, what is above them, and the axis."""
    return int(spec["height"]) + int(spec["padding"]["top"]) + AXIS
