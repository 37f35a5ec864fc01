"""Each phase's seconds as a bar of their causes, with its interval. Imports no Streamlit."""

from __future__ import annotations

import altair as alt
import pandas as pd

from planner.charts.marks import COLORS, INK, colored, finished, tooltip

CAUSE_COLORS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#A89B2D"),
    COLORS["buffers"],
)
"""Okabe and Ito's again; the last, a grey, is of what is left."""
LEFT = "other causes"
BAR = 18
ROW = 42
ENTRY = 18
"""Pixels of a bar, of a phase, and of an entry of the legend."""
LEGEND = {
    "orient": "top", "columns": 1, "symbolType": "square", "rowPadding": -7, "labelLimit": 232
}  # fmt: skip
WIDEST = 1.5
"""Of the longest bar, what an interval may widen the axis by: beyond it, its words say more."""
END = 9
UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


def phase_seconds(rows: pd.DataFrame, *, ink: str = INK["light"]) -> alt.LayerChart:
    """One bar per phase, stacked by cause, and a line from its least to its most.

    Args:
        rows: columns ``phase``, ``cause``, ``role``, ``seconds``, ``total``, ``said`` (the total
            and its interval in words), ``least`` and ``most`` (None where nobody knows them); one
            row per phase, cause and role, phases in their order.
        ink: colour of the intervals.
    """
    longest = float(rows["total"].max())
    size, unit = next((each for each in UNITS if longest >= each[0]), UNITS[-1])
    rows = _folded(rows)
    causes = list(dict.fromkeys(rows.sort_values("rank")["cause"]))
    label = rows["phase"] + "|" + rows["said"]
    rows = rows.assign(label=label, time=rows["seconds"] / size, whole=rows["total"] / size)
    rows["from"], rows["to"] = rows["least"] / size, rows["most"] / size
    most = max(longest, *rows["most"].dropna()) if rows["most"].notna().any() else longest
    end = min(most, WIDEST * longest) / size
    y = alt.Y(
        "label:N",
        sort=list(dict.fromkeys(label)),
        title=None,
        axis=alt.Axis(
            labelExpr="split(datum.value, '|')", labelLimit=190, labelOverlap=False, ticks=False
        ),
    )
    x = alt.X(
        "time:Q",
        title=f"time in a step, {unit}",
        stack="zero",
        scale=alt.Scale(domain=[0, end * 1.02], nice=False),
        axis=alt.Axis(tickCount=5, grid=True),
    )
    bars = (
        alt.Chart(rows)
        .mark_bar(height=BAR, stroke="#00000022", strokeWidth=0.5, clip=True)
        .encode(
            y=y,
            x=x,
            color=colored("cause:N", causes, _colors(causes), **LEGEND),
            order=alt.Order("rank:Q"),
            tooltip=tooltip(
                ("phase:N", "phase"),
                ("cause:N", "cause"),
                ("role:N", "of"),
                ("time:Q", unit, ",.3~g"),
                ("said:N", "phase in all"),
            ),
        )
    )
    known = rows.drop_duplicates("phase").dropna(subset=["least", "most"])
    layers = [bars]
    if not known.empty:
        base = alt.Chart(known).encode(y=y)
        line = base.mark_rule(color=ink, strokeWidth=2, clip=True)
        layers.append(line.encode(x="from:Q", x2="to:Q"))
        layers += [
            base.mark_tick(color=ink, thickness=2, size=END, clip=True).encode(x=f"{end}:Q")
            for end in ("from", "to")
        ]
    return finished(layers, ink, height=ROW * len(set(label)), padding={"top": 5, "right": 5})


def _folded(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a place for each cause, largest first; those beyond the colours are one."""
    largest = rows.groupby("cause")["seconds"].sum().sort_values(ascending=False)
    own = len(CAUSE_COLORS) - 1
    kept = list(largest.index[: own if len(largest) > own + 1 else own + 1])
    cause = rows["cause"].where(rows["cause"].isin(kept), LEFT)
    places = {name: place for place, name in enumerate((*kept, LEFT))}
    return rows.assign(cause=cause, rank=cause.map(places))


def _colors(causes: list[str]) -> dict[str, str]:
    return {
        cause: CAUSE_COLORS[min(place, len(CAUSE_COLORS) - 1)] for place, cause in enumerate(causes)
    }


def height(phases: int, causes: int) -> int:
    """Pixels of the whole chart of so many phases: bars, legend and axis."""
    return ROW * phases + 110 + ENTRY * min(causes, len(CAUSE_COLORS))
