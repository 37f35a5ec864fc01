"""Small multiples under one pointer: panels over one axis, each with a scale of its own.

Charts are Vega-Lite specifications as dictionaries: built of Altair's objects, and checked by them
in each run of a page, they would take more of an edit's time than the plans they show. Imports no
Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from planner.charts.marks import INK

PAPER = {"light": "#FFFFFF", "dark": "#0F1419"}
"""The page behind a chart, by appearance: words over lines have an edge of it."""
SHAPES = {
    "fits": "circle", "tight": "square", "incomplete": "triangle", "out of memory": "cross"
}  # fmt: skip
"""A point's shape, by its verdict."""
Spec = dict[str, Any]


def paper(ink: str) -> str:
    """The page's colour behind words of this ``ink``."""
    return PAPER["dark" if ink == INK["dark"] else "light"]


def title(text: str, ink: str) -> Spec:
    """A panel's title."""
    return {"text": text, "anchor": "start", "fontSize": 13, "color": ink, "offset": 6}


def value_axis(
    ink: str, domain: tuple[float, float], form: str = ",.6~g", log: bool = False
) -> Spec:
    """A panel's own scale. Labels stand inside, so that panels of one width are aligned."""
    scale: Spec = {"domain": list(domain), "nice": False}
    if log:
        scale |= {"type": "log", "base": 10}
    axis = {
        "format": form,
        "title": None,
        "orient": "left",
        "labelAlign": "left",
        "labelBaseline": "bottom",
        "labelPadding": -2,
        "labelOffset": -1,
        "labelColor": ink,
        "labelOverlap": True,
        "tickCount": 4,
        "ticks": False,
        "domain": False,
        "gridOpacity": 0.6,
    }
    return {"scale": scale, "axis": axis}


def words(
    data: Spec, text: str, ink: str, place: Mapping[str, Any], **mark: Any
) -> list[Spec]:
    """Text of a column, and an edge of the page's colour around it, over whatever it meets."""
    encoding = {**place, "text": {"field": text, "type": "nominal"}}
    common = {"type": "text", "fontSize": 12, "lineBreak": "\n", "lineHeight": 12, **mark}
    edge = {"stroke": paper(ink), "strokeWidth": 4, "strokeJoin": "round", "color": paper(ink)}
    return [
        {**data, "mark": {**common, **edge, "aria": False}, "encoding": encoding},
        {**data, "mark": {**common, "color": ink}, "encoding": encoding},
    ]


def pointer(number: int, x: Spec, ink: str, tooltip: Sequence[Spec]) -> Spec:
    """The line under the pointer; one for each panel, and all follow it."""
    return {
        "name": f"pointer {number}",
        "data": {"name": "rows"},
        "mark": {"type": "rule", "color": ink, "strokeWidth": 1, "aria": False},
        "encoding": {
            "x": x,
            "opacity": {"condition": {"param": "near", "empty": False, "value": 0.6}, "value": 0},
            "tooltip": list(tooltip),
        },
    }


def tip(field: str, name: str, form: str = "") -> Spec:
    """A line of the tooltip: a number where it has a form, else words."""
    if not form:
        return {"field": field, "title": name, "type": "nominal"}
    return {"field": field, "title": name, "type": "quantitative", "format": form}


def stacked(panels: Sequence[Spec], datasets: Mapping[str, pd.DataFrame]) -> Spec:
    """The panels as one chart, as wide as the page, with one pointer."""
    select = {
        "type": "point",
        "on": "pointerover",
        "nearest": True,
        "encodings": ["x"],
        "clear": "pointerout",
    }
    views = [f"pointer {number}" for number in range(len(panels))]
    return {
        "vconcat": list(panels),
        "resolve": {"scale": {"color": "independent", "strokeDash": "independent"}},
        "spacing": 14,
        "datasets": dict(datasets),
        "params": [{"name": "near", "select": select, "views": views}],
        "config": {"view": {"stroke": None}},
    }


def apart(ends: Sequence[float], sizes: Sequence[float], length: float) -> list[float]:
    """Places near ``ends``, in their order, of words so high, which do not touch.

    All lie between 0 and ``length``, and closer together where that has no room for them.
    """
    order = sorted(range(len(ends)), key=lambda one: ends[one])
    share = min(1.0, length / max(sum(sizes), 1.0))
    halves = [size * share / 2 for size in sizes]
    found, least, most = list(ends), 0.0, length
    for one in order:
        found[one] = max(found[one], least + halves[one])
        least = found[one] + halves[one]
    for one in reversed(order):
        found[one] = min(found[one], most - halves[one])
        most = found[one] - halves[one]
    return found
