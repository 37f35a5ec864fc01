"""The words of a chart of bars: names on them, what found no room above, what each is beside.

No word is crossed by the card's line. Pixels are foreseen by letters, as wide as they are on the
average; whether a name has room is decided where it is drawn, since only a browser knows how wide a
plot is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.charts.marks import OVER_INK

Drawn = Sequence[Mapping[str, Any]]
"""Stretches of bars as :mod:`planner.charts.bars` stacks them, in the order of their categories."""

WORDS: Mapping[str, str] = {"fits": "✓ fits", "tight": "! tight", "out of memory": "✕ too much"}
"""The verdict as a phase's line says it; of a plan with a part left out nothing is said."""
FONT = 12
LETTER = 6.6
"""Pixels of a letter, on the average of a wide font, of such a size."""
ASIDE = 8
"""Pixels between the plot and what each phase comes to: no label crosses the card's line."""
LEFT, RIGHT = 84, 76
"""Pixels left and right of the plot, above phases' names and totals: room for the key, too."""
CARD = 24
"""Pixels above the plot for the card's label."""
ENTRY, LINE, LINES = 132, 17, 2
"""Pixels of an entry of the key at most and of a line of it, and how many lines there are."""
SQUARE = 22
"""Pixels of an entry beside its name."""
ABOVE = CARD + LINES * LINE
"""Pixels above the plot, whatever is drawn: bars stay where they are while sizes change."""


def words_of(total: float, word: str) -> str:
    """What a phase comes to, with the verdict's word where there is one."""
    return f"{total:,.1f}  {WORDS.get(word, '')}".rstrip()


def _placed(drawn: Drawn, end: float, capacity: float) -> dict[str, Any]:
    """The names' data, and whether the plot as it is on the screen has room for each.

    Where the card's line would cross a name, it stands behind.
    """
    values = [
        {
            "phase": row["phase"],
            "text": row["text"],
            "from": row["from"],
            "share": row["size"] / end,
            "card": (capacity - row["from"]) / end,
            "ink": row["ink"],
            "color": row["color"],
        }
        for row in drawn
    ]
    crossed = "datum.card > 0 && datum.card * width < datum.pixels"
    return {
        "data": {"values": values},
        "transform": [
            {"calculate": f"{LETTER} * length(datum.text) + 6", "as": "pixels"},
            {"calculate": f"{crossed} ? datum.card : 0", "as": "behind"},
            {"calculate": "(datum.share - datum.behind) * width - datum.pixels", "as": "room"},
        ],
    }


def names_in(drawn: Drawn, color: dict[str, Any], end: float, capacity: float) -> dict[str, Any]:
    """A part's name at its beginning, where there is room. A bar's interval lies about its end."""
    placed = _placed(drawn, end, capacity)
    own = [
        {"filter": "datum.room > 0"},
        {"calculate": f"datum.from + datum.behind * {end}", "as": "at"},
    ]
    return {
        **placed,
        "transform": [*placed["transform"], *own],
        "mark": {"type": "text", "align": "left", "dx": 4, "fontSize": FONT - 1, "clip": True},
        "encoding": {
            "x": {"field": "at", "type": "quantitative"},
            "text": {"field": "text"},
            "color": color,
        },
    }


def key(drawn: Drawn, end: float, capacity: float, ink: str) -> list[dict[str, Any]]:
    """The colours of what has its name in no bar, above the plot."""
    placed = _placed([row for row in drawn if not row["chosen"]], end, capacity)
    longest = max((len(row["text"]) for row in drawn), default=0)
    entry = min(LETTER * longest + SQUARE, ENTRY)
    a_line = f"max(1, floor((width + {LEFT + RIGHT}) / {entry}))"
    transform = [
        *placed["transform"],
        {
            "aggregate": [{"op": "max", "field": "room", "as": "room"}],
            "groupby": ["text", "color"],
        },
        {"filter": "datum.room <= 0"},
        {"window": [{"op": "row_number", "as": "place"}]},
        {"calculate": f"(datum.place - 1) % {a_line} * {entry} - {LEFT}", "as": "x"},
        {
            "calculate": f"floor((datum.place - 1) / {a_line}) * {LINE} - {ABOVE - LINE / 2}",
            "as": "y",
        },
    ]
    at = {
        "x": {"field": "x", "type": "quantitative", "scale": None},
        "y": {"field": "y", "type": "quantitative", "scale": None},
    }
    shared = {"data": placed["data"], "transform": transform}
    # What is drawn above the plot takes room; this does so whatever the key has.
    corner = {
        "data": {"values": [{}]},
        "mark": {"type": "point", "opacity": 0, "aria": False},
        "encoding": {"x": {"value": 0}, "y": {"value": -ABOVE}},
    }
    # Where every name stands on its bar the key is an empty group, which nobody can read out.
    square = {"type": "point", "shape": "square", "size": 100, "filled": True, "opacity": 1}
    square["aria"] = False
    label = {"type": "text", "align": "left", "baseline": "middle", "dx": 9, "fontSize": FONT}
    label["aria"] = False
    label["limit"] = entry - SQUARE / 2
    return [
        corner,
        {
            **shared,
            "mark": square,
            "encoding": {**at, "color": {"field": "color", "scale": None}},
        },
        {**shared, "mark": {**label, "color": ink}, "encoding": {**at, "text": {"field": "text"}}},
    ]


def words_beside(rows: Sequence[Mapping[str, Any]], ink: str) -> dict[str, Any]:
    """What each phase comes to, in a column of its own beside the plot."""
    values = [
        {
            "phase": row["phase"],
            "text": row["said"],
            "color": OVER_INK[ink] if row["over"] else ink,
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
