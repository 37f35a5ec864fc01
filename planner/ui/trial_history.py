"""The history on the Trial page: filter, open one, compare two, delete, export and import.

Session keys, set here only: ``trial history said`` what the last action did; ``trial import`` a
number in the upload's key, so that a file that was read is taken off the page; ``trial-…`` are
widgets.
"""

from __future__ import annotations

from functools import partial
from zlib import crc32

import streamlit as st

from planner.footprint import Verdict
from planner.plan import Plan
from planner.trial.ask.result import STATUSES, TrialResult
from planner.trial.history import Filter, History, HistoryError, Summary
from planner.trial.history.exchange import MAX_FILE_BYTES, read_trials
from planner.ui import choices, compute, session, trial_answer
from planner.ui import trial_history_rows as rows
from planner.ui.display import Unit
from planner.ui.messages import plain
from planner.ui.trial_allowed import permitted

SAID = "trial history said"
IMPORT = "trial import"
TABLE = "trial-history"
ROW = 35
"""Pixels of a table's row."""
SHOWN_ROWS = 10
"""More of them scroll."""
LISTED = 1000
"""The newest so many are listed."""
ALL = ""


def section(unit: Unit) -> None:
    """The whole section."""
    st.subheader("History", anchor="history")
    try:
        history = History()
        chosen = _filter()
        lines = history.list(chosen)
        _say()
        if not lines:
            st.caption(
                "No stored trial matches."
                if chosen != Filter(limit=LISTED)
                else "No trial is stored yet. One is stored when it ends, or when you import it."
            )
        else:
            _lines(history, lines, unit)
        _files(history, chosen, bool(lines))
    except HistoryError as error:
        st.warning(plain(str(error)), icon=":material/info:")


def _filter() -> Filter:
    columns = st.columns(3)
    method = columns[0].selectbox(
        "Method of trials",
        (ALL, *choices.options("method")),
        key="trial-filter-method",
        format_func=lambda name: choices.name("method", name) if name else "All methods",
        on_change=session.acted,
    )
    device = columns[1].text_input(
        "Device of trials",
        key="trial-filter-device",
        placeholder="cpu, cuda, H100, …",
        max_chars=100,
        on_change=session.acted,
    )
    status = columns[2].selectbox(
        "Outcome of trials",
        (ALL, *STATUSES),
        key="trial-filter-status",
        format_func=lambda name: name or "All outcomes",
        on_change=session.acted,
    )
    return Filter(method=method, device=device.strip(), status=status, limit=LISTED)


def _lines(history: History, lines: list[Summary], unit: Unit) -> None:
    table = rows.listed(lines)
    event = st.dataframe(
        table,
        hide_index=True,
        height=(min(len(table), SHOWN_ROWS) + 1) * ROW + 3,
        key=table_key(lines),
        on_select=session.acted,
        selection_mode="multi-row",
        alt="Stored trials, newest first",
    )
    places = [place for place in event.selection.rows if place < len(lines)]
    found = [history.get(lines[place].id) for place in places[:2]]
    results = [one for one in found if one is not None]
    if not places:
        st.caption("Choose a line to open its trial, two to compare them.")
    elif len(places) > 2:
        st.caption(f"{len(places)} trials are chosen; two can be compared.")
    elif len(results) == 1:
        _one(results[0], unit)
    elif len(results) == 2:
        _two(results[0], results[1], unit)
    if places:
        names = tuple(lines[place].id for place in places)
        with st.popover(
            "Delete" if len(names) == 1 else f"Delete {len(names)}", icon=":material/delete:"
        ):
            st.markdown("Deleted for good, with the files of the trial. Export first to keep it.")
            st.button("Yes, delete", key="trial-delete", on_click=_delete, args=(names,))


def table_key(lines: list[Summary]) -> str:
    """The table's key: another list is another table, where nothing is chosen by its place."""
    return f"{TABLE}-{crc32(' '.join(line.id for line in lines).encode())}"


def _one(result: TrialResult, unit: Unit) -> None:
    plan = result.planned()
    st.markdown(f"**Trial {result.id}**")
    trial_answer.draw(result, unit, _estimated(plan), key="trial-opened")
    st.button(
        "Open its plan",
        key="trial-open-plan",
        icon=":material/subdirectory_arrow_right:",
        on_click=session.open_plan,
        args=(plan,),
    )


def _estimated(plan: Plan) -> Verdict:
    return compute.footprint(plan).verdict


def _two(first: TrialResult, second: TrialResult, unit: Unit) -> None:
    st.markdown(f"**{first.id}** (first) **and {second.id}** (second)")
    other = rows.changed(first, second)
    st.markdown(f"Otherwise: {plain(other)}." if other else "Same plan, device and versions.")
    table = rows.side_by_side(first, second, unit)
    if table.empty:
        st.caption("Neither measured anything.")
        return
    st.dataframe(
        table,
        hide_index=True,
        height=(len(table) + 1) * ROW + 3,
        key="trial-two",
        alt="Each phase's measured memory and time of two trials",
        column_config={
            name: st.column_config.TextColumn(alignment="right") for name in table.columns[1:]
        },
    )


def _files(history: History, chosen: Filter, any_listed: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="trial-history-files"):
        for kind in ("CSV", "JSON"):
            suffix = f".{kind.lower()}"
            st.download_button(
                f"Export as {kind}",
                data=partial(rows.exported, history, suffix, chosen),
                file_name=f"headroom-trials{suffix}",
                mime="text/csv" if kind == "CSV" else "application/json",
                on_click="ignore",
                icon=":material/download:",
                key=f"trial-export-{kind.lower()}",
                disabled=not any_listed,
            )
    with st.expander("Import trials", icon=":material/upload:", key="trial-import-open"):
        key = f"trial-import-{st.session_state.get(IMPORT, 0)}"
        st.file_uploader(
            "An export, or a result of planner trial --out",
            type=["json", "csv"],
            max_upload_size=MAX_FILE_BYTES // 2**20,
            key=key,
            on_change=_import,
            args=(key,),
        )


def _import(key: str) -> None:
    session.acted()
    file = st.session_state.get(key)
    if file is None or not permitted():
        return
    st.session_state[IMPORT] = st.session_state.get(IMPORT, 0) + 1
    try:
        done = History().add(*read_trials(file.getvalue()))
        st.session_state[SAID] = ("", rows.imported_words(done))
    except HistoryError as error:
        st.session_state[SAID] = ("error", str(error))


def _delete(identifiers: tuple[str, ...]) -> None:
    session.acted()
    if not permitted():
        return
    try:
        history = History()
        left = [one for one in identifiers if not rows.deleted(history, one)]
    except HistoryError as error:
        st.session_state[SAID] = ("error", str(error))
        return
    count = len(identifiers) - len(left)
    said = f"{count} {'trial' if count == 1 else 'trials'} deleted."
    if left:
        said += f" Not over yet, so stop it first: {', '.join(left)}."
    st.session_state[SAID] = ("", said)


def _say() -> None:
    """What the last action did, until the next run."""
    kind, text = st.session_state.pop(SAID, ("", ""))
    if kind:
        st.error(plain(text), icon=":material/error:")
    elif text:
        st.caption(f":material/check: {plain(text)}")
