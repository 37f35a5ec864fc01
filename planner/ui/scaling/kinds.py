"""The plan on each of several cards: dollars, seconds and fit, cheapest first."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.charts.cards import cards as drawn
from planner.plan import Plan, try_plan
from planner.ui import compute
from planner.ui.elements import ink, said
from planner.ui.scaling import limits, rows
from planner.ui.scaling.axes import CARD, known_cards
from planner.ui.scaling.choice import Choice
from planner.ui.scaling.panels import apart
from planner.ui.state import session
from planner.units import read_count, read_seconds, read_usd_between


def kinds(plan: Plan, choice: Choice) -> None:
    """The cheapest in words, the table, the chart above it."""
    if not choice.members:
        st.info("Choose at least one GPU.", icon=":material/info:")
        return
    table = _judged(plan, choice)
    _words(plan, table)
    possible = table[table["valid"]]
    place = st.container()
    called = table[CARD].map(known_cards())
    rows.table(table.assign(plan="A", called=called), CARD, {"A": plan})
    if possible.empty:
        return
    with place:
        st.vega_lite_chart(
            drawn(_chart_rows(plan, possible), unit=session.unit().name, ink=ink()),
            key="cards",
            width="stretch",
            alt="Cost of the run, step time and memory on each GPU, cheapest first; "
            "the table below has every value.",
        )
        st.caption(
            "Memory: the bar is the training peak without vLLM's reservation, the point is the "
            "GPU's peak with it, the line is the GPU's capacity. Whiskers: error on published "
            "runs. Time and cost are shown only where the plan runs."
        )


def _judged(plan: Plan, choice: Choice) -> pd.DataFrame:
    """A row a card: those that run by dollars, then by seconds, then the others."""
    base = plan
    if plan.gpu_bytes:  # typed in for one card, of which no other has so many
        first = try_plan({**plan.model_dump(), **rows.changed(plan, CARD, choice.members[0])})[0]
        base = first or plan
    table = compute.swept(base, {CARD: list(choice.members)})
    table["valid"] = table["valid"].astype(bool)
    table = table.assign(limit=limits.limits(table, plan))
    table["stopped"] = ~table["valid"] | (table["limit"] != "")
    order = ["stopped", "usd_run", "step_seconds", CARD]
    table = table.sort_values(order, ignore_index=True)
    return table.drop(columns="stopped")


def _words(plan: Plan, table: pd.DataFrame) -> None:
    names = known_cards()
    runs = table[table["valid"] & (table["limit"] == "")]
    priced = runs.dropna(subset=["usd_run"])
    text = f"Runs on {len(runs)} of {read_count(len(table), 'GPU')}"
    if len(priced):
        first = priced.iloc[0]
        usd = read_usd_between(first["usd_run"], first["low_usd_run"], first["high_usd_run"])
        text += (
            f". **Cheapest: {names[first[CARD]]}**, {usd} a run, "
            f"{read_seconds(first['step_seconds'])} a step"
        )
        fast = priced.sort_values("step_seconds").iloc[0]
        if fast[CARD] != first[CARD]:
            text += (
                f". **Fastest of those with a price: {names[fast[CARD]]}**, "
                f"{read_seconds(fast['step_seconds'])} a step"
            )
    st.markdown(f":material/straighten: {text}.".replace("$", r"\$"))
    notes = []
    if plan.price_per_gpu_hour:
        notes.append("Your own price is used for every GPU.")
    if refused := list(table[CARD][~table["valid"]]):
        _, problems = try_plan({**plan.model_dump(), **rows.changed(plan, CARD, refused[0])})
        why = said(problems[0].sentence) if problems else ""
        notes.append(f"{len(refused)} give no valid plan; {names[refused[0]]}: {why}")
    if notes:
        st.caption("  \n".join(notes))


def _chart_rows(plan: Plan, table: pd.DataFrame) -> pd.DataFrame:
    size, runs = session.unit().size_bytes, table["limit"] == ""
    need = apart(compute.footprint(plan), table)[0].max(axis=1)
    names = known_cards()
    return pd.DataFrame(
        {
            "card": table[CARD].map(names),
            "verdict": table["verdict"].astype(str),
            "limit": table["limit"],
            "phase": table["worst_phase"].astype(str),
            "peak": table["device_bytes"].astype(float) / size,
            "need": need / size,
            "size": table["budget_bytes"].astype(float) / size,
            **{
                name: table[column].astype(float).where(runs)
                for name, column in (
                    ("seconds", "step_seconds"),
                    ("seconds_low", "low_step_seconds"),
                    ("seconds_high", "high_step_seconds"),
                    ("usd", "usd_run"),
                    ("usd_low", "low_usd_run"),
                    ("usd_high", "high_usd_run"),
                )
            },
        }
    )
