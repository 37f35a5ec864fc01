"""Buttons of what runs on this machine, a trial or a benchmark: start it, see it, stop it.

They do nothing for a visitor who may not run trials here: a button may be older than the
owner's word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from planner.jobs.processes import Jobs, JobState
from planner.ui import watching
from planner.ui.elements import button, said
from planner.ui.state import session
from planner.ui.trial.allowed import permitted
from planner.wording.display import plain

POLL = "1s"


def watched(
    panel: Callable[..., None], under_way: Callable[[], Sequence[JobState[Any, Any]]], *given: Any
) -> None:
    """A panel of what is under way: drawn every second while anything is.

    The whole page is drawn anew where something begins or ends, so that looking ends with it and a
    result appears.
    """
    def now() -> tuple[tuple[str, ...], bool]:
        names = tuple(one.identifier for one in under_way())
        return names, bool(names)

    watching.watched(lambda: panel(under_way(), *given), now, poll=POLL)


def start(what: str, begin: Callable[[Any], object], asked: Any) -> None:
    """Callback of a button that starts something; why it could not is kept for :func:`refused`."""
    st.session_state.pop(f"{what} error", None)
    if not permitted():
        return
    try:
        begin(asked)
    except OSError as error:
        st.session_state[f"{what} error"] = (
            f"The {what} cannot start: {error.strerror or error}. Set HEADROOM_DATA to a folder "
            "that the app may write to."
        )


def refused(what: str) -> None:
    """Why the last press started nothing."""
    if f"{what} error" in st.session_state:
        st.error(plain(st.session_state[f"{what} error"]), icon=":material/error:")


def on_folder(jobs: Jobs[Any, Any, Any], does: Callable[[Any], object], name: str) -> None:
    """Callback of a button of something that runs or ran: what to do with its folder."""
    folder = jobs.find(name) if permitted() else None
    if folder is not None:
        does(folder)


def progress(
    what: str, jobs: Jobs[Any, Any, Any], name: str, done: int, of: int, words: str
) -> None:
    """How far it is, and the way out."""
    st.progress(min(done / of, 1.0) if of else 0.0, text=plain(words))
    button("Stop", f"{what}-stop-{name}", "stop", on_folder, jobs, jobs.stop, name)


def offer(key: str, text: str, label: str, why_not: str, applied: bool, help: str) -> None:
    """The button that puts what was measured into the address, or why it is not there."""
    if why_not:
        st.caption(said(why_not))
    elif applied:
        st.markdown(":material/check: Applied; the message above the page takes it off.")
    else:
        button(label, f"{key}-apply", "tune", session.carry, key, text, help=help)
