"""Corrections measured by stored trials: offered, applied when somebody asks, and taken off.

Applied factors stand in the address, and the message above every page says what they make of the
verdict; the figures on the pages stay the uncorrected estimate's.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.factors import factors_to_text
from planner.footprint import Footprint
from planner.plan import Plan
from planner.trial.calibration import Kind, calibration, counts, kind_of, ratios
from planner.trial.correction import obstacle
from planner.trial.history import Filter, History, HistoryError, Summary
from planner.trial.result import TrialResult
from planner.ui import session
from planner.ui.messages import plain
from planner.ui.trial_allowed import permitted
from planner.ui.trial_words import share

READ = 200
"""The newest so many trials of a method on a card are read."""
ROW = 35
"""Pixels of a table's row."""


def offer(footprint: Footprint) -> None:
    """On Plan: a line with a button, where trials of this method on this card are stored."""
    if session.calibration() is not None or not permitted():
        return
    try:
        lines = lines_of(footprint.plan)
    except HistoryError:  # the Trial page says it, and what to do
        return
    if lines:
        count = "One stored trial" if len(lines) == 1 else f"{len(lines)} stored trials"
        st.markdown(
            f":material/tune: {count} of this method on this card and torch version: "
            "*Trial* shows measured ÷ predicted, and applies it if you ask."
        )


def lines_of(plan: Plan) -> list[Summary]:
    """Completed trials of the plan's method, card and torch version.

    Raises:
        HistoryError: when the history cannot be read.
    """
    wanted = Filter(method=plan.method, gpu=plan.gpu, status="completed", limit=READ)
    return [
        line
        for line in History().list(wanted)
        if line.device_kind == "cuda" and not line.censored and _same_torch(line, plan)
    ]


def _same_torch(line: Summary, plan: Plan) -> bool:
    return line.torch_version.partition("+")[0] == plan.torch_version.partition("+")[0]


def section(footprint: Footprint) -> None:
    """On Trial: the ratios of the trials that hold for the plan, and the button."""
    st.subheader("What trials say of the prediction", anchor="calibration")
    try:
        history = History()
        found = [history.get(line.id) for line in lines_of(footprint.plan)]
    except HistoryError:  # the history below says it
        return
    results = [one for one in found if one is not None and counts(one)]
    if not results:
        st.caption(
            "No stored trial has this method, card and torch version, so there is nothing to "
            "correct the estimate with; its error is unknown: keep at least 10 % free. Trials on "
            "a processor correct nothing of a GPU."
        )
        return
    kind = most_common(results)
    try:
        factors, notes = calibration(results, kind)
    except ValueError as error:
        st.caption(plain(str(error)))
        return
    rows = table(results, kind)
    st.dataframe(
        rows,
        hide_index=True,
        height=(min(len(rows), 12) + 1) * ROW + 3,
        key="calibration-table",
        alt="Measured divided by predicted, by phase and quantity",
        column_config={
            name: st.column_config.TextColumn(alignment="right") for name in rows.columns[2:]
        },
    )
    st.caption(plain(f"Of {kind.words}: {_said(results, kind)} {' '.join(notes)}"))
    why = obstacle(factors, footprint)
    if why:
        st.caption(plain(why))
    elif session.calibration() == factors:
        st.markdown(":material/check: Applied; the message above the page takes it off.")
    else:
        st.button(
            "Apply to the estimate",
            key="calibration-apply",
            icon=":material/tune:",
            on_click=session.apply_calibration,
            args=(factors_to_text(factors),),
            help="Phase by phase, never as one factor. The link carries it, so that whoever "
            "opens it sees the same; it can be taken off.",
        )


def most_common(results: list[TrialResult]) -> Kind:
    """The kind with the most trials; of equally many the one with the newest."""
    kinds = [kind_of(one) for one in results]
    return max(dict.fromkeys(kinds), key=kinds.count)


def _said(results: list[TrialResult], kind: Kind) -> str:
    count = sum(kind_of(one) == kind for one in results)
    return "one trial." if count == 1 else f"the medians of {count} trials."


def table(results: list[TrialResult], kind: Kind) -> pd.DataFrame:
    """One row per phase and quantity of the estimate: how far measurements are above it."""
    return pd.DataFrame(
        [
            {
                "Phase": one.phase,
                "Quantity": one.quantity,
                "Measured beside estimate": share(one.median - 1),
                "Lowest": share(one.lowest - 1),
                "Highest": share(one.highest - 1),
                "Trials": str(one.trials),
            }
            for one in ratios(results, kind)
            if one.rung == "estimate"
        ],
        columns=["Phase", "Quantity", "Measured beside estimate", "Lowest", "Highest", "Trials"],
    )
