"""Plans beside each other: each phase's peak, the engine's share apart. Imports no Streamlit."""

from __future__ import annotations

import altair as alt
import pandas as pd

from planner.charts.marks import INK, finished, tooltip

PLAN_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
"""Okabe and Ito's; the order of bars and their names tell plans apart as well."""
POOL_OPACITY = 0.35
BAR = 15
GAP = 12


def phases_of_plans(
    rows: pd.DataFrame, *, unit: str, ink: str = INK["light"]
) -> alt.LayerChart:
    """A group of bars per phase, one per plan: full colour for training, pale for the pool.

    Args:
        rows: columns ``phase``, ``plan``, ``own``, ``total``, ``capacity`` (in the unit),
            ``detail``; one row per phase and plan, in the order of phases and plans.
        unit: name of the unit.
        ink: colour of words, and of the marks where a card ends.
    """
    phases, plans = (list(dict.fromkeys(rows[name])) for name in ("phase", "plan"))
    most = max(float(rows["total"].max()), float(rows["capacity"].max()))
    base = alt.Chart(rows).encode(
        y=alt.Y(
            "phase:N",
            sort=phases,
            title=None,
            scale=alt.Scale(paddingInner=GAP / (BAR * len(plans) + GAP)),
            axis=alt.Axis(labelLimit=190, ticks=False),
        ),
        yOffset=alt.YOffset("plan:N", sort=plans),
        tooltip=tooltip(
            ("phase:N", "phase"),
            ("plan:N", "plan"),
            ("own:Q", f"training, {unit}", ",.2f"),
            ("pool:Q", f"engine's share, {unit}", ",.2f"),
            ("capacity:Q", f"card, {unit}", ",.2f"),
            ("detail:N", "at"),
        ),
    ).transform_calculate(pool="datum.total - datum.own")
    color = alt.Color(
        "plan:N",
        sort=plans,
        scale=alt.Scale(domain=plans, range=PLAN_COLORS[: len(plans)]),
        legend=alt.Legend(
            title=None,
            orient="top",
            columns=2,
            symbolType="square",
            symbolOpacity=1,
        ),
    )
    x = alt.X(
        "own:Q",
        title=f"memory per GPU at the phase's peak, {unit}",
        scale=alt.Scale(domain=[0, most * 1.04], nice=False),
        axis=alt.Axis(tickCount=6, grid=True),
    )
    own = base.mark_bar().encode(x=x, color=color)
    pool = base.mark_bar(opacity=POOL_OPACITY).encode(x=x, x2="total:Q", color=color)
    cards = base.mark_tick(thickness=2, color=ink).encode(x="capacity:Q")
    height = _height(len(phases), len(plans))
    return finished([own, pool, cards], ink, height=height, padding={"top": 5, "right": 5})


def height(phases: int, plans: int) -> int:
    """Pixels of the whole chart: bars, legend and axis."""
    return _height(phases, plans) + 40 + 26 * -(-plans // 2) + 20


def _height(phases: int, plans: int) -> int:
    return phases * (BAR * plans + GAP)
