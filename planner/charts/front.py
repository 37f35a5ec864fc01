"""The Pareto front of cost and time: plans that no other beats in both. No Streamlit."""

from __future__ import annotations

import pandas as pd

from planner.charts.marks import GRID, INK
from planner.charts.multiples import SHAPES, Spec, tip, words
from planner.charts.panel import PALETTE

CHOSEN = "point"
"""Name of the selection; its ``place`` is the row's."""
HEIGHT = 380
ROOM = 1.08
"""How far the axes reach beyond the intervals, as a factor: they are logarithmic."""


def front(rows: pd.DataFrame, place: int = 0, *, ink: str = INK["light"]) -> Spec:
    """A point per plan, joined in the order of hours, with a bar each way for what it may be.

    Args:
        rows: columns ``place`` (0, 1, …), ``name``, ``word`` of the verdict, and ``hours`` and
            ``usd`` of the run, each with ``low_`` and ``high_``.
        place: the one that is chosen.
        ink: colour of words.
    """
    x, y = (_axis(rows, name, text, ink) for name, text in AXES)
    tips = [
        tip("name", "GPUs"),
        tip("word", "verdict"),
        *(
            tip(f"{end}{name}", f"{text}{word}", ",.3~r")
            for name, text in AXES
            for end, word in (("", ""), ("low_", ", at least"), ("high_", ", at most"))
        ),
    ]
    rows = rows.assign(label=_labels(rows, place))
    line = {"type": "line", "color": ink, "strokeDash": [4, 3], "opacity": 0.6}
    here = {"test": f"datum.place == {int(place)}"}
    faint = {"opacity": {"condition": {**here, "value": 0.6}, "value": 0.15}}
    doubt = {"type": "rule", "color": ink, "strokeWidth": 1.5}
    shapes = {"domain": list(SHAPES), "range": list(SHAPES.values())}
    used = [word for word in SHAPES if word in set(rows["word"])]
    legend = {"title": None, "orient": "top", "labelColor": ink, "values": used}
    point = {"type": "point", "filled": True, "opacity": 1, "cursor": "pointer"}
    data: Spec = {"data": {"name": "rows"}}
    return {
        "datasets": {"rows": rows},
        "width": "container",
        "height": HEIGHT - 80,
        "params": [
            {"name": CHOSEN, "views": ["points"], "select": {"type": "point", "fields": ["place"]}}
        ],
        "layer": [
            {**data, "mark": line, "encoding": {"x": x, "y": y}},
            {**data, "mark": doubt, "encoding": {**_ends("x", x), "y": y, **faint}},
            {**data, "mark": doubt, "encoding": {"x": x, **_ends("y", y), **faint}},
            {
                **data,
                "name": "points",
                "mark": point,
                "encoding": {
                    "x": x,
                    "y": y,
                    "size": {"condition": {**here, "value": 260}, "value": 110},
                    "color": {"condition": {**here, "value": ink}, "value": PALETTE[0]},
                    "shape": {
                        "field": "word", "type": "nominal", "scale": shapes, "legend": legend
                    },
                    "tooltip": tips,
                },
            },
            *_names(x, y, ink),
        ],
        "config": {"view": {"stroke": None}},
    }  # fmt: skip


AXES = (("hours", "hours of the run"), ("usd", "dollars of the run"))


def _labels(rows: pd.DataFrame, place: int) -> list[str]:
    """What stands at each point: how many GPUs, where all are of one kind.

    Names of several kinds are too long for that, and stand at both ends and at the chosen one.
    """
    names = [str(name) for name in rows["name"]]
    counts, _, cards = zip(*(name.partition(" × ") for name in names), strict=True)
    first, last = int(rows["hours"].argmin()), int(rows["hours"].argmax())
    if len(set(cards)) == 1:
        unit = "GPU" if counts[first] == "1" else "GPUs"
        return [f"{one} {unit}" if n == first else one for n, one in enumerate(counts)]
    said = (first, last, [*rows["place"]].index(place))
    return [name if n in said else "" for n, name in enumerate(names)]


def _names(x: Spec, y: Spec, ink: str) -> list[Spec]:
    """Which GPUs, above each point, towards the side that has room."""
    low, high = x["scale"]["domain"]
    found = []
    for side, sign, align in (("<", 1, "left"), (">=", -1, "right")):
        filtered = [{"filter": f"datum.hours {side} {(low * high) ** 0.5}"}]
        data: Spec = {"data": {"name": "rows"}, "transform": filtered}
        found += words(data, "label", ink, {"x": x, "y": y}, dy=-14, align=align, dx=6 * sign)
    return found


def _ends(channel: str, axis: Spec) -> Spec:
    low, high = (f"{end}_{axis['field']}" for end in ("low", "high"))
    return {channel: {**axis, "field": low}, f"{channel}2": {"field": high}}


def _axis(rows: pd.DataFrame, name: str, text: str, ink: str) -> Spec:
    low, high = float(rows[f"low_{name}"].min()), float(rows[f"high_{name}"].max())
    return {
        "field": name,
        "type": "quantitative",
        "scale": {"type": "log", "domain": [low / ROOM, high * ROOM], "nice": False},
        "axis": {
            "title": text,
            "format": ",.3~r",
            "labelColor": ink,
            "titleColor": ink,
            "gridColor": GRID[ink],
            "tickCount": 6,
            "labelOverlap": True,
        },
    }
