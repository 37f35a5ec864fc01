"""Corrections measured by stored trials: offered, applied when somebody asks, and taken off.

Applied factors stand in the address and correct the figures of the Plan page; the message above
every page says what the verdict is without them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.factors import Factors, factors_to_text
from planner.plan.query import CALIBRATION
from planner.trial.ask.result import TrialResult
from planner.trial.evidence.calibration import Kind, calibration, kind_of, ratios
from planner.trial.evidence.correction import obstacle
from planner.trial.history import HistoryError
from planner.trial.history.comparisons import proving
from planner.ui.elements import row, said, text_table
from planner.ui.state import session
from planner.ui.trial import controls
from planner.ui.trial.allowed import permitted
from planner.ui.trial.words import share
from planner.wording.display import plain

COLUMNS = ["Phase", "Quantity", "Measured beside estimate", "Lowest", "Highest", "Trials"]


@dataclass(frozen=True, slots=True)
class Correction:
    """What stored trials of one kind say of the estimate."""

    results: list[TrialResult]
    kind: Kind
    factors: Factors
    notes: tuple[str, ...]


def offer(footprint: Footprint) -> None:
    """On Plan: a line with a button, where trials of this method on this card are stored."""
    if session.calibration() is not None or not permitted():
        return
    try:
        found = correction_of(footprint.plan)
    except (HistoryError, ValueError):  # the Trial page says it, and what to do
        return
    if found is None or obstacle(found.factors, footprint):
        return
    count = len(found.results)
    said = "One stored trial" if count == 1 else f"{count} stored trials"
    with row("calibration-offer"):
        st.markdown(
            f":material/tune: {said} of this method on this card and torch version: "
            "*Trial* shows measured ÷ predicted."
        )
        _offer(found.factors, "")


def correction_of(plan: Plan) -> Correction | None:
    """The factors of the stored trials that hold for a plan; None where there are none.

    Raises:
        HistoryError: when the history cannot be read.
        ValueError: when the trials give no factor, with the reason.
    """
    results = [one for one in proving(plan.method, plan.gpu) if _same_torch(one, plan)]
    if not results:
        return None
    kind = most_common(results)
    factors, notes = calibration(results, kind)
    return Correction(results, kind, factors, notes)


def _same_torch(result: TrialResult, plan: Plan) -> bool:
    version = result.environment.versions.get("torch", "") if result.environment else ""
    return version.partition("+")[0] == plan.torch_version.partition("+")[0]


def section(footprint: Footprint) -> None:
    """On Trial: the ratios of the trials that hold for the plan, and the button."""
    st.subheader("Calibration from trials", anchor="calibration")
    try:
        found = correction_of(footprint.plan)
    except HistoryError:  # the history below says it
        return
    except ValueError as error:
        st.caption(said(error))
        return
    if found is None:
        st.caption(
            "No stored trial of this method, GPU and torch version, so there is nothing to "
            "calibrate the estimate with. CPU trials do not calibrate GPU estimates."
        )
        return
    text_table(
        table(found.results, found.kind),
        "calibration-table",
        "Measured divided by predicted, by phase and quantity",
        right=2,
        most=12,
    )
    of = f"Of {found.kind.words}: {_said(found.results, found.kind)}"
    st.caption(plain(f"{of} {' '.join(found.notes)}"))
    _offer(found.factors, obstacle(found.factors, footprint))


def _offer(factors: Factors, why_not: str) -> None:
    controls.offer(
        CALIBRATION,
        factors_to_text(factors),
        "Apply to the estimate",
        why_not,
        session.calibration() == factors,
        "Calibrates phase by phase. The link then carries the calibration, so whoever opens the "
        "link sees the same estimate; you can take the calibration off.",
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
    rows = [
        (
            one.phase,
            one.quantity,
            *(share(value - 1) for value in (one.median, one.lowest, one.highest)),
            str(one.trials),
        )
        for one in ratios(results, kind)
        if one.rung == "estimate"
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
