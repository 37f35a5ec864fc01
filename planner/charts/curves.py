"""What changes along one axis of a plan: lines in aligned panels. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from planner.charts.marks import INK, OVER
from planner.charts.multiples import Spec, pointer, stacked, tip, title, value_axis, words
from planner.charts.panel import (
    Axis,
    Closed,
    Line,
    Panel,
    closed_rows,
    domain_of,
    name_rows,
    place_rows,
    scale_of,
)

FEW = 40
"""Places up to which each is a point on its lines."""


def curves(
    rows: pd.DataFrame,
    panels: Sequence[Panel],
    axis: Axis,
    *,
    closed: Sequence[Closed] = (),
    read: Sequence[tuple[str, str]] = (),
    ink: str = INK["light"],
) -> Spec:
    """The panels one below the other, over one logarithmic axis and under one pointer.

    Args:
        rows: ``x``, the columns of the panels' lines, and those of ``read``; one row a place.
        panels: the topmost names what ``closed`` stretches are.
        axis: what lies below all of them.
        closed: stretches on which no plan runs.
        read: columns of words for the pointer, and their names.
        ink: colour of words.
    """
    tips = [
        tip("x", axis.title, axis.form),
        *(tip(*one) for one in read),
        *(
            tip(line.column, line.said(panel), panel.form)
            for panel in panels
            for line in panel.lines
        ),
    ]
    datasets: dict[str, pd.DataFrame] = {"rows": rows}
    if closed:
        datasets["closed"] = closed_rows(closed, axis)
    drawn = [
        _panel(number, panel, rows, axis, datasets, tips, ink, last=panel is panels[-1])
        for number, panel in enumerate(panels)
    ]
    return stacked(drawn, datasets)


def _panel(
    number: int,
    panel: Panel,
    rows: pd.DataFrame,
    axis: Axis,
    datasets: dict[str, pd.DataFrame],
    tips: Sequence[Spec],
    ink: str,
    last: bool,
) -> Spec:
    x, domain, steep = scale_of(axis, ink, last), *domain_of(panel, rows)
    y = {"type": "quantitative", **value_axis(ink, domain, log=steep)}
    own = {"data": {"name": "rows"}}
    layers: list[Spec] = []
    if "closed" in datasets:
        layers += _shades(x, ink, named=number == 0)
    for line in panel.lines:
        if line.low:
            layers.append(_band(line, x, y))
    layers.append(_lines(panel.lines, x, y, points=len(rows) <= FEW))
    datasets[f"places {number}"] = marked = place_rows(panel, axis, number == 0)
    if len(marked):
        layers += _upright({"data": {"name": f"places {number}"}}, x, ink, panel.height)
    for name, height in panel.limits:
        layers += _limit(name, height, axis, x, y, ink)
    datasets[f"names {number}"] = name_rows(panel, rows, axis, domain, steep)
    layers += [
        *_ends({"data": {"name": f"names {number}"}}, x, ink),
        pointer(number, x, ink, tips),
    ]
    return {
        "title": title(panel.title, ink),
        "height": panel.height,
        "width": 600,
        "layer": layers,
        **own,
    }


def _lines(lines: Sequence[Line], x: Spec, y: Spec, points: bool) -> Spec:
    """All lines of a panel; a plan that is not possible leaves no gap."""
    columns = [line.column for line in lines]

    def by_line(values: Sequence[Any]) -> Spec:
        scale = {"domain": columns, "range": list(values)}
        return {"field": "line", "type": "nominal", "scale": scale, "legend": None}

    mark: Spec = {"type": "line", "strokeWidth": 2.25, "clip": True}
    if points:
        mark["point"] = {"size": 45, "filled": True, "opacity": 1}
    return {
        "data": {"name": "rows"},
        "transform": [{"fold": columns, "as": ["line", "y"]}, {"filter": "isValid(datum.y)"}],
        "mark": mark,
        "encoding": {
            "x": x,
            "y": {"field": "y", **y},
            "color": by_line([line.color for line in lines]),
            "strokeDash": by_line([list(line.dash) for line in lines]),
        },
    }


def _band(line: Line, x: Spec, y: Spec) -> Spec:
    """Between what a figure may be at least and at most."""
    return {
        "data": {"name": "rows"},
        "transform": [{"filter": f"isValid(datum['{line.low}'])"}],
        "mark": {"type": "area", "opacity": 0.16, "color": line.color, "clip": True},
        "encoding": {"x": x, "y": {"field": line.low, **y}, "y2": {"field": line.high}},
    }


def _shades(x: Spec, ink: str, named: bool) -> list[Spec]:
    """Where no plan runs; in the topmost panel with the reason."""
    data = {"data": {"name": "closed"}}
    shade = {"type": "rect", "color": OVER, "opacity": 0.1, "aria": False}
    layers: list[Spec] = [
        {
            **data,
            "mark": shade,
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}},
        }
    ]
    if not named:
        return layers
    for side in ("left", "right"):
        own = {**data, "transform": [{"filter": f"datum.side == '{side}'"}]}
        place = {"x": {**x, "field": "at"}, "y": {"value": 4}}
        push = 5 if side == "left" else -5
        layers += words(own, "label", ink, place, align=side, baseline="top", dx=push)
    return layers


def _limit(name: str, height: float, axis: Axis, x: Spec, y: Spec, ink: str) -> list[Spec]:
    """A dashed line at a limit's height, named at its left end."""
    data: Spec = {"data": {"values": [{"height": height, "name": name, "x": axis.low}]}}
    at = {"field": "height", **y}
    rule = {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1.5, "color": ink}
    place = {"x": {**x}, "y": at}
    return [
        {**data, "mark": rule, "encoding": {"y": at}},
        *words(data, "name", ink, place, align="left", baseline="bottom", dy=-3, dx=6),
    ]


def _upright(data: Spec, x: Spec, ink: str, height: int) -> list[Spec]:
    rule = {"type": "rule", "color": ink, "opacity": 0.35, "strokeWidth": 1.5}
    place = {"x": x, "y": {"value": height - 4}}
    return [
        {**data, "mark": rule, "encoding": {"x": x}},
        *words(data, "name", ink, place, align="left", baseline="bottom", dx=4),
    ]


def _ends(data: Spec, x: Spec, ink: str) -> list[Spec]:
    """Names of lines, each behind a stroke of its colour."""
    at = {"field": "at", "type": "quantitative", "scale": None, "axis": None}
    color = {"field": "color", "type": "nominal", "scale": None, "legend": None}
    stroke = {
        "type": "point",
        "shape": "stroke",
        "size": 90,
        "strokeWidth": 3,
        "xOffset": 12,
        "aria": False,  # the names beside them are read
    }
    place = {"x": x, "y": at}
    return [
        {**data, "mark": stroke, "encoding": {**place, "stroke": color}},
        *words(data, "name", ink, place, align="left", baseline="middle", dx=20),
    ]
