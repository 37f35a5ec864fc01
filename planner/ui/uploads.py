"""Files are taken only from a page that shows a place for them, and as many as it asks for.

Streamlit's upload route takes a file from anybody with a session, whether or not a page asks for
one, and keeps it in memory. Its manager is public to the server alone, so this reaches into it;
where another version has none, uploads work as Streamlit has them, within ``server.maxUploadSize``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st
from starlette.exceptions import HTTPException
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

LARGEST_MB = 16
"""``server.maxUploadSize``; ``planner trials --import`` reads larger files."""
MOST_TOGETHER = 10
"""Files that are sent to a place for several."""
_asking: dict[str, int] = {}
"""Sessions whose page shows an uploader, and how many files it takes."""


def uploader(label: str, key: str, *, several: bool = False, **more: Any) -> None:
    """A place for one file, or for several; from now on this session may send as many."""
    st.file_uploader(label, key=key, accept_multiple_files=several, **more)
    _asking[_session()] = MOST_TOGETHER if several else 1
    st.session_state["uploader shown"] = True


def sent(key: str) -> Any:
    """The file that was sent to a place; None where it was taken away.

    Another file of the session takes it away, too: Streamlit then has a name for it without bytes.
    """
    file = st.session_state.get(key)
    return file if hasattr(file, "getvalue") else None


def sent_together(key: str) -> list[Any]:
    """The files that were sent to a place for several."""
    return [file for file in st.session_state.get(key) or () if hasattr(file, "getvalue")]


def begin() -> None:
    """Before a page is drawn: the server asks this module about each file."""
    st.session_state["uploader shown"] = False
    served = runtime.get_instance() if runtime.exists() else None
    manager = getattr(served, "uploaded_file_mgr", None)
    if manager is not None and not hasattr(manager, "headroom"):
        manager.headroom = True
        manager.add_file = _guarded(manager, manager.add_file)


def end() -> None:
    """After a page is drawn: without an uploader on it nothing is taken."""
    if not st.session_state["uploader shown"]:
        _asking.pop(_session(), None)


def _session() -> str:
    context = get_script_run_ctx()
    return context.session_id if context else ""


def _guarded(manager: Any, add: Callable[..., None]) -> Callable[..., None]:
    def guarded(session_id: str, file: Any) -> None:
        if session_id not in _asking:
            raise HTTPException(403, "No page of this session asks for a file.")
        kept = [*manager.file_storage.get(session_id, ())]
        for oldest in kept[: len(kept) + 1 - _asking[session_id]]:
            manager.remove_file(session_id, oldest)
        add(session_id, file)

    return guarded
