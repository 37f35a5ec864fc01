"""Which GPUs: the plan on every card of the catalog, by how many of it, and the cheapest."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from planner.advice.cards import Choice, Goal, best, smallest
from planner.footprint import Footprint
from planner.ui import compute
from planner.ui.elements import numbers, opened
from planner.ui.state import session
from planner.units import read_count, read_seconds, read_usd

WORDS = {"fits": 0, "tight": 1, "out of memory": 2, "impossible": 3}
MEANING = (
    "Nothing else of the plan changes; several GPUs shard what one has whole. Prices are the "
    "middle of the catalog's; where nobody has listed one, there is no cost."
)


def show(footprint: Footprint) -> None:
    """The table, what is least in it, and a button for the chosen row."""
    with st.spinner("Judging the plan on every card…"):
        found = compute.on_other_gpus(footprint.plan)
    _least(found)
    every = st.toggle("Also what does not fit", key="all-gpus", help=MEANING)
    shown = sorted(
        (one for one in found if every or one.word in ("fits", "tight")),
        key=lambda one: (WORDS[one.word], one.usd_run is None, one.usd_run or one.gpus),
    )
    if not shown:
        st.info("This plan fits on no card of the catalog, however many of it.")
        return
    place = opened(
        _table(shown),
        "other-gpus",
        "The plan on every card, by how many: verdict, peak, seconds of a step, cost of the run",
        _columns(),
        most=12,
    )
    _take(footprint, shown[place])


def _table(shown: Sequence[Choice]) -> pd.DataFrame:
    unit = session.unit()
    return pd.DataFrame(
        {
            "GPU": one.name,
            "Count": one.gpus,
            "Verdict": one.word,
            f"Peak, {unit.name}": unit.value(one.device_bytes) if one.device_bytes else None,
            "Of card": one.device_bytes / one.budget_bytes
            if one.device_bytes and one.budget_bytes
            else None,
            "Worst phase": one.worst,
            "Step, s": one.step_seconds,
            "from": one.low_seconds,
            "to": one.high_seconds,
            "Run, $": one.usd_run,
            "from ": one.low_usd,
            "to ": one.high_usd,
        }
        for one in shown
    )


def _columns() -> dict[str, object]:
    return {
        "Of card": st.column_config.ProgressColumn(min_value=0, max_value=1.5, format="percent"),
        **numbers([f"Peak, {session.unit().name}"], "%.1f"),
        **numbers(["Step, s", "from", "to"], "%.3g"),
        **numbers(["Run, $", "from ", "to "], "%,.0f"),
    }


def _least(found: Sequence[Choice]) -> None:
    """The cheapest, the fastest and the fewest, and which others are inside the error of it."""
    lines = []
    goals: tuple[tuple[str, Goal], ...] = (("Cheapest", "usd_run"), ("Fastest", "step_seconds"))
    for word, goal in goals:
        least = best(found, goal)
        if least is not None:
            first, ties = least
            lines.append(f"**{word}**: {_named(first)}{_figure(first, goal)}{_tied(ties)}")
    fewest = smallest(found)
    if fewest is not None:
        lines.append(f"**Fewest**: {_named(fewest)}")
    if lines:
        st.markdown("  \n".join(lines).replace("$", r"\$"))


def _named(one: Choice) -> str:
    return f"{one.gpus} × {one.name}"


def _figure(one: Choice, goal: Goal) -> str:
    value = getattr(one, goal)
    if goal == "usd_run":
        return f", {read_usd(value)} the run"
    return f", {read_seconds(value)} a step"


def _tied(ties: Sequence[Choice]) -> str:
    return f" ({read_count(len(ties), 'other')} inside its error)" if ties else ""


def _take(footprint: Footprint, one: Choice) -> None:
    plan = footprint.plan
    same = all(getattr(plan, field) == value for field, value in one.changes.items())
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{_named(one)}**: {one.word}", width="content")
        st.button(
            "This is the plan" if same else "Apply",
            key="apply-gpus",
            icon=":material/check:",
            disabled=same or one.word == "impossible",
            on_click=session.apply,
            args=(dict(one.changes),),
        )
