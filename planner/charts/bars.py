"""Each phase as a bar of its parts: its peak against the card, or its time. No Streamlit.

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
from planner.wording.display import kind_of

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.1.0.json"
"""The version's name; nobody asks that address."""
ROWS = "rows"
"""Name of the layer that is clicked."""
CHOSEN = "phase"
"""Name of the selection: the phase that is clicked."""

BAR = 22
ROW = 30
LOW = {"yOffset": BAR / 2 - 3}
"""Draws a bar's range in its lower part, below the name."""
AXIS = 56
"""Pixels of the axis below the bars, with its title."""
OVERHEAD = "overhead"
ONE: Mapping[str, str] = dict.fromkeys(("buffers", "allocator", "device"), OVERHEAD)
"""Categories that are one to the eye: nobody plans with them apart, and the list of terms does."""
DRAWN = tuple(dict.fromkeys(ONE.get(name, name) for name in CATEGORIES))
HUES: Mapping[str, str] = {**COLORS, OVERHEAD: COLORS["buffers"]}
CACHE = "KV cache"
"""What vLLM's share leaves for its cache: chosen, not needed."""


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


class Scale(NamedTuple):
    """Of a chart of bars: where its axis ends, what that is called, its unit, colour of words."""

    end: float
    title: str
    unit: str
    ink: str = INK["light"]


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
    rows = [
        {
            **peak._asdict(),
            "said": bar_words.words_of(peak.total, peak.word),
            "over": peak.word == "out of memory",
        }
        for peak in peaks
    ]
    title = f"memory per GPU at the phase's peak, {unit}"
    scale = Scale(end_of(peaks, capacity), title, unit, ink)
    return stacked(_stretches(parts), rows, scale, chosen=chosen, capacity=capacity)


def stacked(
    drawn: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    scale: Scale,
    *,
    chosen: str = "",
    capacity: float | None = None,
) -> dict[str, Any]:
    """A bar per row of the stretches that begin and end in it.

    Args:
        drawn: each with ``phase``, ``text`` (its name), ``size``,
            ``from``, ``to``, ``color``, ``ink`` (of the name) and ``chosen``.
        rows: each with ``phase``, ``said`` (beside the bar), ``over`` (too much), ``least`` and
            ``most``, in their order.
        scale: of the axis.
        chosen: the phase whose row is marked.
        capacity: where the card ends, if that is drawn.
    """
    end, ink = scale.end, scale.ink
    order = [row["phase"] for row in rows]
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
        "title": scale.title,
        "scale": {"domain": [0, end], "nice": False, "zero": True},
        "axis": {"tickCount": 6, "gridColor": GRID[ink], "labelColor": ink, "titleColor": ink},
    }
    line = 2 * end if capacity is None else capacity
    by_phase = (
        *_bars(drawn, x, scale, line),
        *_intervals(rows, scale),
        _rows(drawn, rows, scale),
        bar_words.words_beside(rows, ink),
    )
    layers = [{**layer, "encoding": {"y": y, **layer["encoding"]}} for layer in by_phase]
    return {
        "$schema": SCHEMA,
        "height": ROW * len(rows),
        "width": "container",
        "padding": {"left": 0, "top": 2, "right": 4, "bottom": 0},
        "config": {"view": {"strokeWidth": 0}},
        "params": [_clicked(chosen)],
        "layer": [
            *layers,
            *bar_words.key(drawn, end, line, ink),
            *([] if capacity is None else _card(capacity, scale)),
        ],
    }


def end_of(peaks: Sequence[Peak], capacity: float) -> float:
    """Where the axis ends: behind the card and every bar and interval."""
    return 1.02 * max(capacity, *(max(peak.total, peak.most) for peak in peaks))


def _stretches(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The parts from where to where; chosen ones behind all that is needed."""
    sums: dict[tuple[str, str, bool], float] = {}
    for part in parts:
        name = ONE.get(part.category, part.category)
        of = (part.phase, name, part.chosen)
        sums[of] = sums.get(of, 0.0) + part.memory
    found = sorted(sums.items(), key=lambda row: (row[0][2], DRAWN.index(row[0][1])))
    return one_upon_the_other(
        (phase, CACHE if chosen else kind_of(name), size, HUES[name], chosen)
        for (phase, name, chosen), size in found
    )


def one_upon_the_other(parts: Any) -> list[dict[str, Any]]:
    """Stretches of (phase, name, size, colour, whether it is chosen), each behind those before."""
    ends: dict[str, float] = {}
    drawn = []
    for phase, name, size, color, chosen in parts:
        start = ends.get(phase, 0.0)
        ends[phase] = start + size
        drawn.append(
            {
                "phase": phase,
                "text": name,
                "size": size,
                "from": start,
                "to": ends[phase],
                "color": color,
                "ink": on_color(color),
                "chosen": chosen,
            }
        )
    return drawn


def _clicked(chosen: str) -> dict[str, Any]:
    """The phase whose row was clicked, at first the chosen one."""
    select = {"type": "point", "fields": ["phase"], "toggle": False}
    given = {"value": [{"phase": chosen}]} if chosen else {}
    return {"name": CHOSEN, "select": select, "views": [ROWS], **given}


def _rows(
    drawn: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], scale: Scale
) -> dict[str, Any]:
    """A row per phase over all that is drawn in it, to click on; the chosen one is tinted.

    Vega lets one layer be clicked, and only the uppermost hears of it: so it has the words of what
    is below the pointer.
    """
    parts = {
        row["phase"]: ", ".join(
            f"{one['text']} {one['size']:,.2f}" for one in drawn if one["phase"] == row["phase"]
        )
        for row in rows
    }
    tint = {"condition": {"param": CHOSEN, "empty": False, "value": 0.12}, "value": 0}
    words = (("phase", "phase"), ("said", scale.unit), ("parts", "of it"))
    return {
        "name": ROWS,
        "data": {"values": [{**row, "parts": parts[row["phase"]]} for row in rows]},
        "mark": {"type": "bar", "height": ROW, "color": scale.ink, "cursor": "pointer"},
        "encoding": {
            "x": {"datum": 0},
            "x2": {"datum": scale.end},
            "fillOpacity": tint,
            "tooltip": [{"field": field, "title": title} for field, title in words],
        },
    }


def _bars(
    drawn: Sequence[Mapping[str, Any]], x: dict[str, Any], scale: Scale, line: float
) -> list[dict[str, Any]]:
    """The parts, each with its name in it where there is room."""
    where = {"x": {**x, "field": "from"}, "x2": {"field": "to"}}
    needed = [row for row in drawn if not row["chosen"]]
    pool = [row for row in drawn if row["chosen"]]
    mark = {"type": "bar", "height": BAR}
    color = {"field": "color", "scale": None}
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": needed},
            "mark": {**mark, "stroke": "#00000022", "strokeWidth": 0.5},
            "encoding": {**where, "color": color},
        }
    ]
    if pool:
        edge = {"stroke": pool[0]["color"], "strokeDash": [3, 2], "strokeWidth": 1.5}
        layers.append(
            {
                "data": {"values": pool},
                "mark": {**mark, "fill": pool[0]["color"], "fillOpacity": 0.15, **edge},
                "encoding": where,
            }
        )
    inks = (needed, {"field": "ink", "scale": None}), (pool, {"value": scale.ink})
    layers += [bar_words.names_in(named, own, scale.end, line) for named, own in inks]
    return [layer for layer in layers if layer["data"]["values"]]


def _intervals(rows: Sequence[Mapping[str, Any]], scale: Scale) -> list[dict[str, Any]]:
    """A line with two ends over each phase whose least and most differ; cut at the plot."""
    known = [row for row in rows if row["least"] is not None and row["least"] < row["most"]]
    if not known:
        return []
    data = {"values": known}
    line = {"x": _at("least"), "x2": {"field": "most"}}
    rule = {"type": "rule", "color": scale.ink, "strokeWidth": 2, "clip": True, **LOW}
    tick = {"type": "tick", "color": scale.ink, "thickness": 2, "size": END, "clip": True, **LOW}
    return [
        {"data": data, "mark": rule, "encoding": line},
        *({"data": data, "mark": tick, "encoding": {"x": _at(end)}} for end in ("least", "most")),
    ]


def _at(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative"}


def _card(capacity: float, scale: Scale) -> list[dict[str, Any]]:
    """A dashed line where the card ends, and its label above, on the side that has room."""
    values = [{"capacity": capacity, "label": f"GPU: {capacity:,.1f} {scale.unit}"}]
    left = capacity > scale.end / 2
    aside = {"align": "right" if left else "left", "dx": -5 if left else 5}
    x = {"field": "capacity", "type": "quantitative"}
    line = {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 2, "color": scale.ink}
    label = {"type": "text", "color": scale.ink, "dy": -6, "baseline": "bottom", **aside}
    return [
        {"data": {"values": values}, "mark": line, "encoding": {"x": x}},
        {
            "data": {"values": values},
            "mark": label,
            "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "label"}},
        },
    ]


def height(phases: int) -> int:
    """Pixels of the whole chart of so many phases: bars, what is above them, and the axis."""
    return ROW * phases + bar_words.ABOVE + AXIS
