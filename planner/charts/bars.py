"""Each phase's peak as a bar of its parts, against the card. Imports no Streamlit.

A Vega-Lite specification as plain data: to build and check it with Altair takes longer than all
else of a page together. ``altair.Chart.from_dict`` saves it as a picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from planner.charts.marks import COLORS, END, GRID, INK, OVER_INK, on_color
from planner.footprint import CATEGORIES

WORDS: Mapping[str, str] = {"fits": "✓ fits", "tight": "! tight", "out of memory": "✕ too much"}
"""The verdict as a phase's line says it."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.1.0.json"
"""The version's name; nobody asks that address."""
ROWS = "rows"
"""Name of the layer that is clicked."""
CHOSEN = "phase"
"""Name of the selection: the phase that is clicked."""

BAR = 22
ROW = 30
FONT = 12
LETTER = 6.6
"""Pixels of a letter, on the average of a wide font, of such a size."""
AXIS = 56
"""Pixels of the axis below the bars, with its title."""
ASIDE = 8
"""Pixels between the plot and what each phase comes to: no label crosses the card's line."""
NARROW = 250
"""Pixels of a plot in which a category's name has to have room to need no entry in the legend."""
LEGEND_COLUMNS = 3
LEGEND_ROW = 29
LEFT = 84
"""Pixels that a legend may take left of the plot, above the phases' names."""
CARD = 24
"""Pixels above the plot for the card's label."""
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
    legend = _legend(drawn, end_of(peaks, capacity), ink)
    order = [peak.phase for peak in peaks]
    end = end_of(peaks, capacity)
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
        _words(rows, ink),
    )
    return {
        "$schema": SCHEMA,
        "height": ROW * len(peaks),
        "width": "container",
        "padding": {"left": 0, "top": above(drawn, end), "right": 4, "bottom": 0},
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


def _legend(drawn: list[dict[str, Any]], end: float, ink: str) -> dict[str, Any] | None:
    """Colours of what is nowhere wide enough for its name; the others say theirs themselves."""
    small = _without_room(drawn, end)
    if not small:
        return None
    return {
        "title": None,
        "orient": "none",
        "legendX": -LEFT,
        "legendY": -above(drawn, end),
        "direction": "horizontal",
        "values": small,
        "symbolType": "square",
        "symbolSize": 110,
        "labelColor": ink,
        "labelFontSize": FONT,
        "columns": LEGEND_COLUMNS,
        "columnPadding": 12,
        "rowPadding": 3,
    }


def above(drawn: list[dict[str, Any]], end: float) -> int:
    """Pixels above the plot: the card's label and the legend."""
    return CARD + LEGEND_ROW * ceil(len(_without_room(drawn, end)) / LEGEND_COLUMNS)


def _text(row: Mapping[str, Any]) -> str:
    return f"{row['total']:,.1f}  {WORDS[row['word']]}"


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
    legend: dict[str, Any] | None,
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
        layers.append(_names(named, color_of, end, capacity))
    return [layer for layer in layers if layer["data"]["values"]]


def _names(
    drawn: list[dict[str, Any]], color: dict[str, Any], end: float, capacity: float
) -> dict[str, Any]:
    """A part's name at its beginning, where the plot as it is on the screen has room for it.

    A bar's interval lies about its end. Where the card's line would cross it, a name stands behind.
    """
    values = [
        {
            "phase": row["phase"],
            "text": row["text"],
            "from": row["from"],
            "share": row["memory"] / end,
            "card": (capacity - row["from"]) / end,
            "ink": row["ink"],
        }
        for row in drawn
    ]
    crossed = "datum.card > 0 && datum.card * width < datum.pixels"
    return {
        "data": {"values": values},
        "transform": [
            {"calculate": f"{LETTER} * length(datum.text) + 6", "as": "pixels"},
            {"calculate": f"{crossed} ? datum.card : 0", "as": "behind"},
            {"filter": "(datum.share - datum.behind) * width > datum.pixels"},
            {"calculate": f"datum.from + datum.behind * {end}", "as": "at"},
        ],
        "mark": {"type": "text", "align": "left", "dx": 4, "fontSize": FONT - 1, "clip": True},
        "encoding": {
            "x": {"field": "at", "type": "quantitative"},
            "text": {"field": "text"},
            "color": color,
        },
    }


def _without_room(drawn: list[dict[str, Any]], end: float) -> list[str]:
    """Categories that no bar of a narrow plot has room to name."""
    widest: dict[str, float] = {}
    for row in (row for row in drawn if not row["chosen"]):
        pixels = NARROW * row["memory"] / end
        widest[row["category"]] = max(widest.get(row["category"], 0.0), pixels)
    wanted = {name: LETTER * len(name) + 4 for name in widest}
    return [name for name in DRAWN if name in widest and widest[name] < wanted[name]]


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


def _words(rows: list[dict[str, Any]], ink: str) -> dict[str, Any]:
    """What each phase comes to, in a column of its own beside the plot."""
    values = [
        {
            "phase": row["phase"],
            "text": _text(row),
            "color": OVER_INK[ink] if row["word"] == "out of memory" else ink,
        }
        for row in rows
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "text", "align": "left", "dx": ASIDE, "fontSize": FONT},
        "encoding": {
            "x": {"value": "width"},
            "text": {"field": "text"},
            "color": {"field": "color", "scale": None},
        },
    }


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
