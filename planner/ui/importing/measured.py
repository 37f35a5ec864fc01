"""What a run's log measured beside the plan, its lengths into the plan, and the log as a trial."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.footprint import Footprint
from planner.importer.imported import Imported
from planner.importer.logs.as_trial import as_trial
from planner.importer.logs.beside import Beside, beside, length_fields
from planner.importer.logs.measured import Figure, Measured
from planner.plan import Plan
from planner.trial.history import History, HistoryError
from planner.ui.elements import bullets, button, row, said, text_table
from planner.ui.state import session
from planner.ui.trial.allowed import permitted
from planner.units import read_count, read_seconds
from planner.wording.display import plain

SAID = "import log said"


def show(found: Imported, footprint: Footprint | None) -> None:
    """Each form of log that the texts have."""
    for number, one in enumerate(found.logs):
        st.subheader(f"Measured: {one.form}", anchor=False)
        if one.steps:
            st.caption(f"{read_count(one.steps, 'step')} of the log.")
        if one.figures:
            table = pd.DataFrame(_rows(one, footprint))
            text_table(table, f"import-log:{number}", "Measured and estimated", right=1)
        if one.notes:
            bullets(one.notes)
        if footprint is not None and one.lengths is not None:
            fields = length_fields(one.lengths, footprint.plan)
            if fields:
                label = "Use these lengths"
                button(label, f"import-lengths:{number}", "straighten", session.apply, fields)
    if footprint is not None and found.logs and permitted():
        _kept(found.logs, footprint.plan)


def _rows(log: Measured, footprint: Footprint | None) -> list[dict[str, str]]:
    told = [{"Figure": one.words, "Measured": _read(one, one.value)} for one in log.figures]
    if footprint is None:
        return told
    return [
        {**cells, "Estimated": _estimated(pair), "Of": pair.phase, "Error": _error(pair)}
        for cells, pair in zip(told, beside(log, footprint), strict=True)
    ]


def _read(figure: Figure, value: float) -> str:
    seconds = figure.quantity == "seconds"
    return read_seconds(value) if seconds else str(session.read(value))


def _estimated(pair: Beside) -> str:
    return "" if pair.estimated is None else _read(pair.figure, pair.estimated)


def _error(pair: Beside) -> str:
    """Of the estimate, against what was measured."""
    return "" if not pair.ratio else f"{1 / pair.ratio - 1:+.0%}"


def _kept(logs: tuple[Measured, ...], plan: Plan) -> None:
    with row("import-as-trial"):
        button("Keep as a trial", "import-trial", "speed", _keep, logs, plan)
        if told := st.session_state.pop(SAID, ""):
            st.caption(said(plain(told)))
    st.caption("A trial corrects estimates of plans like this one, on the Trial page.")


def _keep(logs: tuple[Measured, ...], plan: Plan) -> None:
    try:
        added = History().add(as_trial(logs, plan))
        st.session_state[SAID] = "Kept." if added.added else "This log was kept before."
    except (HistoryError, ValueError) as error:
        st.session_state[SAID] = str(error)
