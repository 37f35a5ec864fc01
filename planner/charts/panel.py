"""What panels over one axis hold: lines, limits, marks, where names stand. No Streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import pandas as pd

from planner.charts.multiples import Spec, apart

PALETTE = ("#0072B2", "#C77F00", "#00875F", "#B8609A", "#3A93CC", "#7A7A7A", "#8E6BBF")
"""Okabe and Ito's colours, dark enough for thin lines on both pages; ``OVER`` is kept."""
DASHES = ([1, 0], [7, 3], [2, 2])
"""Lines beyond the palette repeat its colours in another dash."""
SECOND = (PALETTE[1], [7, 3])
"""Colour and dash of a second plan."""
WIDEST = 2.0
"""Of the highest point, what a band may raise a panel by."""
ABOVE = 1.6
"""Of the highest limit, what lines above it may raise a panel by; they leave it at the top."""
STEEP = 12.0
"""Largest over smallest figure from which a panel without limits is logarithmic."""
LETTERS = 12
"""Pixels of a line of a name."""
BESIDE = 0.2
"""Of the axis' length, what is left for lines' names beside it."""
APART = 1.3
"""Labels of values nearer than this would touch."""
BILLIONS = "replace(format(datum.value, '.3~s'), 'G', 'B')"
"""Parameters as people say them: 7.62B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A column of the rows as a line; ``low`` and ``high`` are columns of its band."""

    column: str
    name: str
    color: str = PALETTE[0]
    dash: Sequence[int] = (1, 0)
    low: str = ""
    high: str = ""

    def said(self, panel: Panel) -> str:
        """What the pointer calls it; names break into lines, of which it knows none."""
        return f"{self.name.replace(chr(10), ' ') or panel.title}, {panel.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel: lines of one ``unit``, limits as heights with names, places marked with a name."""

    title: str
    unit: str
    lines: Sequence[Line]
    height: int = 150
    form: str = ",.3~r"
    limits: Sequence[tuple[str, float]] = ()
    marks: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The axis: what it counts, its ends, values worth a label, and the plans' own places."""

    title: str
    low: float
    high: float
    ticks: Sequence[float]
    own: Sequence[tuple[float, str]] = ()
    form: str = ",~r"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A stretch of the axis on which no plan runs, and why."""

    low: float
    high: float
    label: str


def scale_of(axis: Axis, ink: str, last: bool) -> Spec:
    """The axis; its scale goes on beyond the highest value, where lines are named."""
    spread = axis.high / axis.low
    top = axis.high * max(spread**BESIDE, 1.15)
    scale = {"type": "log", "base": 2, "domain": [axis.low, top], "nice": False, "padding": 34}
    expression = BILLIONS if axis.high >= 1e7 else "format(datum.value, ',')"
    labels = {
        "values": _spread(sorted(set(axis.ticks))),
        "labelExpr": expression,
        "labelColor": ink,
        "titleColor": ink,
        "title": axis.title if last else None,
        "labels": last,
        "grid": False,
        "domain": False,
        "labelFlush": False,
        "ticks": last,
    }
    return {"field": "x", "type": "quantitative", "scale": scale, "axis": labels}


def domain_of(panel: Panel, rows: pd.DataFrame) -> tuple[tuple[float, float], bool]:
    """The ends of a panel's scale, and whether it is logarithmic."""
    found = rows[[line.column for line in panel.lines]].to_numpy(dtype=float, na_value=float("nan"))
    known = pd.Series(found.ravel()).dropna()
    highest, least = (float(known.max()), float(known.min())) if len(known) else (1.0, 1.0)
    if panel.limits:
        limit = max(height for _, height in panel.limits)
        return (0.0, max(1.12 * limit, min(1.06 * highest, ABOVE * limit))), False
    ends = [rows[line.high].max() for line in panel.lines if line.high]
    top = max([highest, *(float(end) for end in ends if end == end)])
    top = min(top, WIDEST * highest)
    if least > 0 and highest / least > STEEP:
        lows = (float(rows[line.low].min()) for line in panel.lines if line.low)
        return (0.7 * min([least, *(low for low in lows if low > 0)]), 1.3 * top), True
    return (0.0, 1.15 * top or 1.0), False


def closed_rows(closed: Sequence[Closed], axis: Axis) -> pd.DataFrame:
    """Stretches, and where their reason is written: inside, or before one near the end."""
    rows = []
    for one in closed:
        late = _share(one.low, axis) > 0.6
        # One that reaches the end goes on behind the lines' names, which belong to it.
        rows.append((one.low, one.high, one.label, one.low, "right" if late else "left"))
    return pd.DataFrame(rows, columns=["low", "high", "label", "at", "side"])


def _share(value: float, axis: Axis) -> float:
    """Where on the axis a value is, from 0 to 1."""
    if axis.high <= axis.low:
        return 0.0
    return log(value / axis.low) / log(axis.high / axis.low)


def name_rows(
    panel: Panel, rows: pd.DataFrame, axis: Axis, domain: tuple[float, float], steep: bool
) -> pd.DataFrame:
    """Each line's name beside its end, moved so far that names do not touch."""
    low, high = (log(end) if steep else end for end in domain)
    ends, kept = [], []
    for line in panel.lines:
        known = rows[line.column].dropna()
        if line.name and len(known):
            end = float(known.iloc[-1])
            share = ((log(end) if steep else end) - low) / (high - low)
            ends.append(panel.height * (1 - min(max(share, 0.0), 1.0)))
            kept.append(line)
    sizes = [LETTERS * (1 + line.name.count("\n")) + 2 for line in kept]
    places = apart(ends, sizes, panel.height)
    return pd.DataFrame(
        [
            # Words of several lines are placed by their first.
            (axis.high, at - LETTERS * line.name.count("\n") / 2, line.name, line.color)
            for at, line in zip(places, kept, strict=True)
        ],
        columns=["x", "at", "name", "color"],
    )


def place_rows(panel: Panel, axis: Axis, first: bool) -> pd.DataFrame:
    """Upright lines: the plans' own places, and what a panel marks."""
    own = [(x, name if first else "") for x, name in axis.own]
    return pd.DataFrame([*own, *panel.marks], columns=["x", "name"])


def _spread(ticks: Sequence[float], most: int = 12) -> list[float]:
    """At most so many of the values, the largest included, so that labels do not collide."""
    kept = [ticks[-1]]
    for tick in reversed(ticks[:-1]):
        if kept[-1] / tick >= APART:
            kept.append(tick)
    step = -(-len(kept) // most)
    return sorted(kept[::step])
