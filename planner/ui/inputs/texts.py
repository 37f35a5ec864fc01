"""A file of texts whose tokens a tokenizer has to count: which one, how far, and what it came to.

Session keys, set here only: ``length texts`` is the :class:`Texts` that was uploaded, until it is
counted or dropped; ``length tokenizer`` is an uploaded :class:`Texts` of a ``tokenizer.json``;
``counting`` is the visitor's last :class:`Counting`, and ``counted`` what it came to, in words.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from planner.catalog.hub import tokenizer_on_this_machine
from planner.lengths.counting import Counting
from planner.lengths.shape import grouped
from planner.lengths.text import to_text
from planner.ui.elements import row
from planner.ui.state import session
from planner.ui.uploads import LARGEST_MB, sent, uploader
from planner.ui.watching import state, watched
from planner.wording.display import plain

FIELD = "length_distribution"
TEXTS, TOKENIZER, JOB, TOLD = "length texts", "length tokenizer", "counting", "counted"
UPLOADED = "uploaded tokenizer"
GIVEN_UP = "Given up; the texts are still here."


class Texts(NamedTuple):
    """A file that somebody uploaded."""

    name: str
    content: bytes


def keep(texts: Texts) -> None:
    """Texts that wait for a tokenizer; those before them are forgotten."""
    drop()
    st.session_state[TEXTS] = texts


def drop() -> None:
    """Nothing waits any more; the plan keeps its lengths."""
    job: Counting | None = st.session_state.pop(JOB, None)
    if job is not None:
        job.cancel()
    for key in (TEXTS, TOLD):
        st.session_state.pop(key, None)


def panel(model: str) -> None:
    """What can be done with the texts that wait, and how the last ones were counted."""
    if TOLD in st.session_state:
        st.caption(f":material/check: {plain(st.session_state[TOLD])}")
    if TEXTS not in st.session_state:
        return
    watched(_panel, lambda: state(st.session_state.get(JOB)), model)


def _panel(model: str) -> None:
    texts: Texts = st.session_state[TEXTS]
    job: Counting | None = st.session_state.get(JOB)
    running = job is not None and job.running
    if job is not None and not running and job.found:
        _take(job, texts)
    st.info(
        f"{plain(texts.name)} holds texts: a tokenizer has to count them.",
        icon=":material/text_fields:",
    )
    own = tokenizer_on_this_machine(model)
    given: Texts | None = st.session_state.get(TOKENIZER)
    uploader(
        "Tokenizer",
        UPLOADED,
        type=["json"],
        max_upload_size=LARGEST_MB,
        disabled=running,
        on_change=_uploaded,
        help="The tokenizer.json that lies beside the model's config.json. No code of the "
        "tokenizer runs.",
    )
    if given is not None:
        st.caption(f"Tokens are counted by the uploaded {plain(given.name)}.")
    elif own is not None:
        st.caption(
            f"Tokens are counted by {plain(model)}'s own tokenizer, which is on this "
            "machine."
        )
    else:
        st.caption(
            f"No tokenizer of {plain(model)} is on this machine, and nothing is downloaded: upload "
            "its tokenizer.json."
        )
    with row("counting-controls"):
        st.button(
            "Count tokens",
            key="count-tokens",
            icon=":material/play_arrow:",
            disabled=running or (given is None and own is None),
            on_click=partial(_start, texts, given, own),
        )
        if job is not None and running:
            st.button("Cancel", key="count-cancel", icon=":material/close:", on_click=job.cancel)
        else:
            st.button("Drop", key="count-drop", icon=":material/delete:", on_click=drop)
    if job is not None and running:
        st.progress(min(job.done / job.lines, 1.0), f"{job.done:,} of {job.lines:,} lines")
    elif job is not None:
        if job.given_up:
            st.caption(f":material/info: {GIVEN_UP}")
        elif job.error:
            st.error(plain(_sentence(job.error)), icon=":material/error:")


def _sentence(error: str) -> str:
    error = error.removeprefix("tokenizer: ")
    return f"{error[:1].upper()}{error[1:]}"


def _uploaded() -> None:
    file = sent(UPLOADED)
    if file is not None:
        st.session_state[TOKENIZER] = Texts(file.name, file.getvalue())


def _start(texts: Texts, given: Texts | None, own: Path | None) -> None:
    content = given.content if given is not None else own.read_bytes() if own else b""
    st.session_state.pop(TOLD, None)
    st.session_state[JOB] = Counting(texts.content, content)


def _take(job: Counting, texts: Texts) -> None:
    """Its lengths are the plan's; the texts are no longer needed."""
    shape, whole = grouped(job.found), sum(job.found.values())
    session.edit({FIELD: to_text(shape)})
    drop()
    st.session_state[TOLD] = (
        f"Counted {whole:,} texts of {texts.name}, from {min(job.found):,} to {max(job.found):,} "
        "tokens long."
    )
    st.rerun()
