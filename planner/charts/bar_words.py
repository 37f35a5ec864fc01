"""The words of a chart of bars: names in them, their legend above, what each comes to beside.

No word is crossed by the card's line. Pixels are foreseen by letters, as wide as they are on the
average; whether a name has room is decided where it is drawn, since only a browser knows how wide a
plot is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from planner.charts.marks import OVER_INK

Drawn = Sequence[Mapping[str, Any]]
"""Stretches of bars as :mod:`planner.charts.bars` stacks them, in the order of their categories."""

WORDS: Mapping[str, str] = {"fits": "✓ fits", "tight": "! tight", "out of memory": "✕ too much"}
"""The verdict as a phase's line says it."""
FONT = 12
LETTER = 6.6
"""Pixels of a letter, on the average of a wide font, of such a size."""
ASIDE = 8
"""Pixels between the plot and what each phase comes to: no label crosses the card's line."""
LEGEND_COLUMNS = 3
LEGEND_ROW = 29
LEFT = 84
"""Pixels that a legend may take left of the plot, above the phases' names."""
CARD = 24
"""Pixels above the plot for the card's label."""


def legend(drawn: Drawn, ink: str) -> dict[str, Any]:
    """The colour of every category that is drawn, whether or not its name has room in a bar.

    The same ones whatever the sizes are, so that bars stay where they are while a size changes.
    """
    return {
        "title": None,
        "orient": "none",
        "legendX": -LEFT,
        "legendY": -above(drawn),
        "direction": "horizontal",
        "symbolType": "square",
        "symbolSize": 110,
        "labelColor": ink,
        "labelFontSize": FONT,
        "columns": LEGEND_COLUMNS,
        "columnPadding": 12,
        "rowPadding": 3,
    }


def above(drawn: Drawn) -> int:
    """Pixels above the plot: the card's label and the legend."""
    named = {row["category"] for row in drawn if not row["chosen"]}
    return CARD + LEGEND_ROW * ceil(len(named) / LEGEND_COLUMNS)


def _text(row: Mapping[str, Any]) -> str:
    return f"{row['total']:,.1f}  {WORDS[row['word']]}"


def names_in(drawn: Drawn, color: dict[str, Any], end: float, capacity: float) -> dict[str, Any]:
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


def words_beside(rows: list[dict[str, Any]], ink: str) -> dict[str, Any]:
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
