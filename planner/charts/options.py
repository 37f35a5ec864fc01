"""Ways to do one thing, side by side by several measures. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from planner.charts.marks import COLORS, INK, colored, finished, tooltip

KINDS: Mapping[str, str] = {
    "planned": COLORS["parameters"],
    "as claimed": COLORS["allocator"],
    "as it is": COLORS["activations"],
}
"""Colours by what a bar rests on."""
ROW = 19


def option_bars(
    rows: pd.DataFrame, *, ink: str = INK["light"], most: Mapping[str, float] | None = None
) -> alt.LayerChart:
    """A block of bars per measure, each block on a scale of its own, each bar with its figure.

    A measure in which no option has anything is one line of words. As wide as the page; one view,
    since a chart of several cannot follow its container's width.

    Args:
        rows: columns ``measure``, ``option``, ``kind`` (a key of ``KINDS``), ``value`` (a number,
            or missing), ``text`` (the value as it is read) and ``why``, as the fields of
            :class:`planner.examples.reference_options.OptionRow`; measures together, in the order
            to be shown, and options in theirs.
        ink: colour of the words.
        most: the value of a full bar by measure; without it the largest of its own.
    """
    blocks = [
        _block(str(measure), own, (most or {}).get(str(measure)))
        for measure, own in rows.groupby("measure", sort=False)
    ]
    drawn = pd.concat(blocks, ignore_index=True)
    drawn["line"] = range(len(drawn))
    y = alt.Y("line:O", axis=None)
    x = alt.X("share:Q", axis=None, scale=alt.Scale(domain=[-0.62, 1.35], nice=False))
    bars = alt.Chart(drawn[drawn["head"] == ""])
    kinds = [kind for kind in KINDS if kind in set(rows["kind"])]
    color = colored("kind:N", kinds, KINDS, orient="top", symbolType="square")
    hover = tooltip(("measure:N", "measure"), ("option:N", "option"), ("text:N", "value"))
    hover += tooltip(("kind:N", "rests on"), ("why:N", "that is"))
    words: dict[str, Any] = {"fontSize": 12, "color": ink, "baseline": "middle"}
    layers = [
        bars.mark_bar(height=ROW - 6).encode(y=y, x=x, x2="from:Q", color=color, tooltip=hover),
        bars.mark_text(align="left", dx=5, **words).encode(y=y, x="share:Q", text="text:N"),
        bars.mark_text(align="right", dx=-6, **words).encode(y=y, x="from:Q", text="option:N"),
        alt.Chart(drawn[drawn["head"] != ""])
        .mark_text(align="left", fontWeight="bold", **words)
        .encode(y=y, x=alt.datum(-0.62), text="head:N"),
    ]
    return finished(layers, ink, height=ROW * len(drawn))


def _block(measure: str, own: pd.DataFrame, full: float | None = None) -> pd.DataFrame:
    """A measure's lines: its name, then its bars; the name alone where all are nothing."""
    values = own["value"].astype("float64").fillna(0.0)
    most = float(values.max())
    head = pd.DataFrame([{"measure": measure, "head": measure}])
    if not most:
        head["head"] = f"{measure}: none"
        return head
    bars = own.assign(share=values / (full or most), head="", **{"from": 0.0})
    return pd.concat([head, bars], ignore_index=True)
