"""A plan on several cards: dollars, seconds and memory in aligned panels. Imports no Streamlit."""

from __future__ import annotations

from typing import Any

import pandas as pd

from planner.charts.marks import INK, OVER
from planner.charts.multiples import SHAPES, Spec, pointer, stacked, tip, title, value_axis
from planner.charts.panel import PALETTE, WIDEST

HEIGHT = 150
PANELS = (("usd", "Dollars per run"), ("seconds", "Seconds per step"))


def cards(rows: pd.DataFrame, *, unit: str, ink: str = INK["light"]) -> Spec:
    """Cards in the order of the rows, from the left.

    Args:
        rows: columns ``card``, ``verdict``, ``limit``, ``phase`` (the worst), ``need``, ``peak``
            and ``size`` (memory without the engine's pool, with it, and the card's), and
            ``seconds`` and ``usd``, each with ``_low`` and ``_high``, empty where it does not run.
        unit: of memory.
        ink: colour of words.
    """
    scale = {"paddingOuter": 1.6}
    x: Spec = {"field": "card", "type": "nominal", "sort": None, "axis": None, "scale": scale}
    tips = [
        tip("card", "card"),
        tip("verdict", "verdict"),
        tip("limit", "limit"),
        tip("phase", "worst phase"),
        *(
            tip(f"{name}{end}", f"{text}{word}", ",.3~r")
            for name, text in PANELS
            for end, word in (("", ""), ("_low", ", at least"), ("_high", ", at most"))
        ),
        tip("need", f"training peak, {unit}", ",.1f"),
        tip("peak", f"GPU peak, {unit}", ",.1f"),
        tip("size", f"card, {unit}", ",.1f"),
    ]
    known = [panel for panel in PANELS if rows[panel[0]].notna().any()]
    drawn = [
        *(_figure(number, panel, rows, x, tips, ink) for number, panel in enumerate(known)),
        _memory(len(known), rows, unit, x, tips, ink),
    ]
    return stacked(drawn, {"rows": rows})


def _panel(text: str, layers: list[Spec], ink: str) -> Spec:
    named = {"title": title(text, ink), "height": HEIGHT, "width": 600}
    return {**named, "data": {"name": "rows"}, "layer": layers}


def _figure(
    number: int, panel: tuple[str, str], rows: pd.DataFrame, x: Spec, tips: list[Spec], ink: str
) -> Spec:
    """Bars with what they may be at least and at most."""
    name, text = panel
    top = min(float(rows[f"{name}_high"].max()), WIDEST * float(rows[name].max())) * 1.05
    y = {"type": "quantitative", **value_axis(ink, (0.0, top))}
    bar = {"type": "bar", "color": PALETTE[0], "opacity": 0.75, "clip": True}
    doubt = {"type": "rule", "color": ink, "strokeWidth": 2, "clip": True}
    ends = {"y": {"field": f"{name}_low", **y}, "y2": {"field": f"{name}_high"}}
    layers: list[Spec] = [
        {"mark": bar, "encoding": {"x": x, "y": {"field": name, **y}}},
        {"mark": doubt, "encoding": {"x": x, **ends}},
        pointer(number, x, ink, tips),
    ]
    return _panel(text, layers, ink)


def _memory(
    number: int, rows: pd.DataFrame, unit: str, x: Spec, tips: list[Spec], ink: str
) -> Spec:
    """What is needed, against the card's size; a shape for the verdict, and the names."""
    top = 1.1 * float(rows[["need", "peak", "size"]].max().max())
    y = {"type": "quantitative", **value_axis(ink, (0.0, top))}
    axis = {"labelAngle": -90, "labelColor": ink, "labelLimit": 120, "title": None}
    named = {**x, "axis": {**axis, "labelOverlap": False, "domain": False, "ticks": False}}
    over: Any = {"test": "datum.verdict == 'out of memory'", "value": OVER}
    shapes = {"domain": list(SHAPES), "range": list(SHAPES.values())}
    legend = {"title": None, "orient": "bottom", "labelColor": ink, "symbolStrokeColor": ink}
    shape = {"field": "verdict", "type": "nominal", "scale": shapes, "legend": legend}
    bar = {"type": "bar", "color": PALETTE[0], "opacity": 0.75}
    size = {"type": "tick", "color": ink, "thickness": 2.5}
    point = {"type": "point", "filled": True, "size": 60, "color": ink, "opacity": 1}
    layers: list[Spec] = [
        {
            "mark": bar,
            "encoding": {
                "x": named,
                "y": {"field": "need", **y},
                "color": {"condition": over, "value": PALETTE[0]},
            },
        },
        {"mark": size, "encoding": {"x": named, "y": {"field": "size", **y}}},
        {"mark": point, "encoding": {"x": named, "y": {"field": "peak", **y}, "shape": shape}},
        pointer(number, named, ink, tips),
    ]
    return _panel(f"Memory per GPU, {unit}", layers, ink)
