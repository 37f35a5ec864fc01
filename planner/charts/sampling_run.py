"""A run of density-aware sampling: its memory as it goes on, and the densities it found.

Imports no Streamlit. Stages are told apart by a rule and a word, not by colour alone.
"""

from __future__ import annotations

import altair as alt
import pandas as pd

from planner.charts.marks import INK, colored, finished, keyed, tooltip

HEIGHT = 220
KINDS = {"host RAM": "#0072B2", "GPU memory": "#E69F00"}
DASHES = {"host RAM": [1, 0], "GPU memory": [7, 3]}


def memory(
    rows: pd.DataFrame, stages: pd.DataFrame, unit: str, ink: str = INK["light"]
) -> alt.LayerChart:
    """Memory over seconds, with a rule where each stage began.

    Args:
        rows: columns ``seconds``, ``memory``, ``kind`` (a key of ``KINDS``).
        stages: columns ``seconds``, ``stage``.
        unit: of memory.
        ink: colour of rules and words.
    """
    kinds = [kind for kind in KINDS if kind in set(rows["kind"])]
    x = alt.X("seconds:Q", title="seconds since it began", axis=alt.Axis(grid=False))
    lines = (
        alt.Chart(rows)
        .mark_line(interpolate="step-after", point=alt.OverlayMarkDef(size=18))
        .encode(
            x=x,
            y=alt.Y("memory:Q", title=unit, scale=alt.Scale(zero=True)),
            color=colored("kind:N", kinds, KINDS, orient="top", symbolType="stroke"),
            strokeDash=alt.StrokeDash("kind:N", scale=keyed(kinds, DASHES)),
            tooltip=tooltip(
                ("kind:N", "what"), ("seconds:Q", "seconds", ",.1f"), ("memory:Q", unit, ",.3f")
            ),
        )
    )
    base = alt.Chart(stages)
    rules = base.mark_rule(color=ink, opacity=0.25).encode(x="seconds:Q")
    words = base.mark_text(
        color=ink, align="left", baseline="top", dx=3, dy=2, angle=90, fontSize=10, opacity=0.8
    ).encode(x="seconds:Q", y=alt.value(0), text="stage:N")
    return finished([rules, words, lines], ink, height=HEIGHT)


def densities(rows: pd.DataFrame, ink: str = INK["light"]) -> alt.LayerChart:
    """How many prompts lie how far from their neighbours.

    Args:
        rows: columns ``low``, ``high`` (mean distance) and ``prompts``.
        ink: colour of the words.
    """
    bars = (
        alt.Chart(rows)
        .mark_bar(color="#0072B2", binSpacing=0)
        .encode(
            x=alt.X(
                "low:Q",
                bin="binned",
                title="mean distance to the nearest neighbours",
                scale=alt.Scale(zero=False, nice=False),
                axis=alt.Axis(tickCount=6, format=".3~f"),
            ),
            x2="high:Q",
            y=alt.Y("prompts:Q", title="prompts"),
            tooltip=tooltip(
                ("low:Q", "from", ".4f"), ("high:Q", "to", ".4f"), ("prompts:Q", "prompts", ",")
            ),
        )
    )
    ends = alt.Chart(pd.DataFrame({"at": ["left", "right"], "word": ["← common", "rare →"]}))
    common, rare = (ends.transform_filter(f"datum.at == '{at}'") for at in ("left", "right"))
    words = [
        common.mark_text(color=ink, align="left", dx=4, dy=8).encode(
            x=alt.value(0), y=alt.value(0), text="word:N"
        ),
        rare.mark_text(color=ink, align="right", dx=-4, dy=8).encode(
            x=alt.value("width"), y=alt.value(0), text="word:N"
        ),
    ]
    return finished([bars, *words], ink, height=HEIGHT)
