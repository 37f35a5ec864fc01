"""What charts share: colours, legends, tooltips, the card's line, measured errors.

Imports no Streamlit, so a chart can be saved from anywhere. Colour is never the only signal:
bars carry a word, curves different dashes and marks, and the capacity line a label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

COLORS: Mapping[str, str] = {
    "parameters": "#0072B2",
    "gradients": "#56B4E9",
    "optimizer": "#009E73",
    "activations": "#E69F00",
    "logits": "#CC79A7",
    "kv-cache": "#F0E442",
    "buffers": "#8C8C8C",
    "allocator": "#BDBDBD",
    "engine": "#A89B2D",
    "device": "#616161",
}
"""Okabe and Ito's colours, greys for overheads, a dark yellow for the engine's share."""

OVER = "#D55E00"
"""Kept for what exceeds the card."""

INK = {"light": "#1B1F24", "dark": "#E6EAEE"}
"""Colour of lines and words drawn over a chart, by appearance."""

OVER_INK = {INK["light"]: "#AA4A00", INK["dark"]: "#FF9A4D"}
"""The same hue for words, which need more contrast; by the ink of the other words."""

GRID = {INK["light"]: "#DDE1E6", INK["dark"]: "#2C343D"}
"""Colour of a chart's grid, by that ink."""


def on_color(color: str) -> str:
    """Black or white, whichever is read better on a colour."""
    parts = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if luminance > 0.179 else "#FFFFFF"


END = 12
"""Pixels of the ends of an error bar."""


def keyed(names: Sequence[str], values: Mapping[str, Any]) -> alt.Scale:
    """The scale that gives each of these names its own value, in their order."""
    return alt.Scale(domain=list(names), range=[values[name] for name in names])


def colored(
    field: str, names: Sequence[str], colors: Mapping[str, str], **legend: Any
) -> alt.Color:
    """A colour for each of these names, in their order; a legend where something is said of it."""
    shown = alt.Legend(title=None, **legend) if legend else None
    return alt.Color(field, scale=keyed(names, colors), legend=shown)


def by_category(present: Sequence[str]) -> alt.Color:
    """Colour and legend of the categories that a chart shows, in their order."""
    look = {"orient": "top", "columns": 3, "symbolType": "square", "labelLimit": 120}
    return colored("category:N", present, COLORS, **look)


def chosen_in_legend() -> tuple[alt.Parameter, Any]:
    """The legend as a switch, and the opacity of what is chosen in it."""
    chosen = alt.selection_point(name="component", fields=["category"], bind="legend")
    return chosen, alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.2))


def nearest(field: str, **more: Any) -> alt.Parameter:
    """The place nearest to the pointer."""
    return alt.selection_point(
        name="near", nearest=True, on="pointerover", fields=[field], empty=False, **more
    )


def tooltip(*rows: tuple[str, str] | tuple[str, str, str]) -> list[alt.Tooltip]:
    """Lines of a tooltip: what is read, its title, and how a number is written."""
    return [
        alt.Tooltip(field, title=title, format=next(iter(form), alt.Undefined))
        for field, title, *form in rows
    ]


def finished(layers: Sequence[Any], ink: str, **properties: Any) -> alt.LayerChart:
    """The layers as one chart, as wide as the page, with every word in the ink.

    Streamlit's theme has a grey for axes and legends, at 3.7 to 1 on white.
    """
    chart: alt.LayerChart = (
        alt.layer(*layers)
        .properties(width="container", **properties)
        .configure_view(strokeWidth=0)
        .configure_axis(labelColor=ink, titleColor=ink)
        .configure_legend(labelColor=ink, titleColor=ink)
    )
    return chart


def capacity_line(
    channel: str, capacity: float, label: str, ink: str, place: Mapping[str, Any], **text: Any
) -> list[alt.Chart]:
    """A dashed line where the card ends along ``channel``; ``place`` and ``text`` of its label."""
    base = alt.Chart(pd.DataFrame({"capacity": [capacity], "label": [label]})).encode(
        **{channel: "capacity:Q"}
    )
    rule = base.mark_rule(strokeDash=[6, 4], strokeWidth=2, color=ink)
    return [rule, base.mark_text(color=ink, **text).encode(**place, text="label:N")]
