"""The history on the Trial page: filter, open one, compare two, delete, export and import.

Session keys, set here only: ``trial history said`` what the last action did; ``trial import`` a
number in the upload's key, so that a file that was read is taken off the page; ``trial-…`` are
widgets.
"""

from __future__ import annotations

from functools import partial
from zlib import crc32

import streamlit as st

from planner.trial.ask.result import STATUSES, TrialResult
from planner.trial.history import Filter, History, HistoryError, Summary
from planner.trial.history.exchange import read_trials
from planner.ui import compute
from planner.ui.elements import button, choice, doubt, download, row, text_table
from planner.ui.state import session
from planner.ui.trial import answer
from planner.ui.trial import history_rows as rows
from planner.ui.trial.allowed import permitted
from planner.ui.uploads import LARGEST_MB, sent, uploader
from planner.wording import choices
from planner.wording.display import plain

SAID = "trial history said"
IMPORT = "trial import"
TABLE = "trial-history"
SHOWN_ROWS = 10
"""More of them scroll."""
LISTED = 1000
"""The newest so many are listed."""
ALL = ""


def section() -> None:
    """The whole section."""
    st.subheader("History", anchor="history")
    try:
        history = History()
        chosen = _filter()
        lines = history.list(chosen)
        _say()
        if lines:
            _lines(history, lines)
        elif chosen != Filter(limit=LISTED):
            st.caption("No stored trial matches.")
        else:
            st.caption(
                "No trial is stored yet. A trial is stored when it ends, or when you import it."
            )
        _files(history, chosen, bool(lines))
    except HistoryError as error:
        doubt(error)


def _filter() -> Filter:
    columns = st.columns(3)
    method = choice(
        "Method of trials",
        (ALL, *choices.options("method")),
        "trial-filter-method",
        columns[0],
        format_func=lambda name: choices.name("method", name) if name else "All methods",
    )
    device = columns[1].text_input(
        "Device of trials",
        key="trial-filter-device",
        placeholder="cpu, cuda, H100, …",
        max_chars=100,
    )
    status = choice(
        "Outcome of trials",
        (ALL, *STATUSES),
        "trial-filter-status",
        columns[2],
        format_func=lambda name: name or "All outcomes",
    )
    return Filter(method=method, device=device.strip(), status=status, limit=LISTED)


def _lines(history: History, lines: list[Summary]) -> None:
    table = rows.listed(lines)
    event = text_table(
        table,
        table_key(lines),
        "Stored trials, newest first",
        right=table.shape[1],
        most=SHOWN_ROWS,
        on_select="rerun",
        selection_mode="multi-row",
    )
    names = [lines[place].id for place in event.selection.rows if place < len(lines)]
    results = [one for one in map(history.get, names[:2]) if one is not None]
    if not names:
        st.caption("Select one trial to open it, or two to compare them.")
        return
    if len(names) > 2:
        st.caption(f"{len(names)} trials selected; select two to compare.")
    elif len(results) == 1:
        _one(results[0])
    elif len(results) == 2:
        _two(results[0], results[1])
    label = "Delete" if len(names) == 1 else f"Delete {len(names)}"
    with st.popover(label, icon=":material/delete:"):
        st.markdown(
            "Deletes the trial and its files for good. Export the trial first if you want to keep "
            "it."
        )
        st.button("Yes, delete", key="trial-delete", on_click=_delete, args=(tuple(names),))


def table_key(lines: list[Summary]) -> str:
    """The table's key: another list is another table, where nothing is chosen by its place."""
    return f"{TABLE}-{crc32(' '.join(line.id for line in lines).encode())}"


def _one(result: TrialResult) -> None:
    plan = result.planned()
    st.markdown(f"**Trial {result.id}**")
    answer.draw(result, compute.footprint(plan).verdict, key="trial-opened")
    button("Open its plan", "trial-open-plan", "subdirectory_arrow_right", session.open_plan, plan)


def _two(first: TrialResult, second: TrialResult) -> None:
    st.markdown(f"**{first.id}** (first) **and {second.id}** (second)")
    other = rows.changed(first, second)
    st.markdown(f"Otherwise: {plain(other)}." if other else "Same plan, device and versions.")
    table = rows.side_by_side(first, second, session.unit())
    if table.empty:
        st.caption("Neither measured anything.")
    else:
        text_table(table, "trial-two", "Each phase's measured memory and time of two trials")


def _files(history: History, chosen: Filter, any_listed: bool) -> None:
    with row("trial-history-files"):
        for kind in ("csv", "json"):
            download(
                f"Export as {kind.upper()}",
                partial(rows.exported, history, f".{kind}", chosen),
                f"headroom-trials.{kind}",
                f"trial-export-{kind}",
                disabled=not any_listed,
            )
    with st.expander("Import trials", icon=":material/upload:", key="trial-import-open"):
        key = f"trial-import-{st.session_state.get(IMPORT, 0)}"
        uploader(
            "An export, or a result of planner trial --out",
            key,
            type=["json", "csv"],
            max_upload_size=LARGEST_MB,
            on_change=_import,
            args=(key,),
        )


def _import(key: str) -> None:
    file = sent(key)
    if file is None or not permitted():
        return
    st.session_state[IMPORT] = st.session_state.get(IMPORT, 0) + 1
    try:
        done = History().add(*read_trials(file.getvalue()))
        st.session_state[SAID] = ("", rows.imported_words(done))
    except HistoryError as error:
        st.session_state[SAID] = ("error", str(error))


def _delete(identifiers: tuple[str, ...]) -> None:
    if not permitted():
        return
    try:
        history = History()
        left = [one for one in identifiers if not rows.deleted(history, one)]
    except HistoryError as error:
        st.session_state[SAID] = ("error", str(error))
        return
    said = f"{rows.trials(len(identifiers) - len(left))} deleted."
    if left:
        said += f" Not deleted, because still under way: {', '.join(left)}. Stop them first."
    st.session_state[SAID] = ("", said)


def _say() -> None:
    """What the last action did, until the next run."""
    kind, text = st.session_state.pop(SAID, ("", ""))
    if kind:
        st.error(plain(text), icon=":material/error:")
    elif text:
        st.caption(f":material/check: {plain(text)}")
