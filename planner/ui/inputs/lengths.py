"""How long responses are: at their cap, the offered shape, or one's own counts and figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from io import StringIO
from types import SimpleNamespace
from typing import Any

import streamlit as st

from planner.lengths.counted import Uncounted, counted
from planner.lengths.shape import MOST_TOKENS, Shape, grouped, lognormal
from planner.lengths.text import to_text
from planner.lengths.typical import SOURCE, logged, typical
from planner.plan.length_words import words
from planner.ui.elements import segments
from planner.ui.inputs import texts
from planner.ui.state import session, typed
from planner.ui.state.draft import Draft
from planner.ui.uploads import LARGEST_MB, sent, uploader
from planner.wording.display import plain
from planner.wording.fields import help_text, short_label

FIELD = "length_distribution"
LIMIT = "response_tokens"
"""The cap that the input stands below."""
KEY = "response lengths"
CHOICES = {"cap": "All at the limit", "typical": "Typical distribution", "own": "My own…"}
TAKEN = ("Counts", "File")
WAYS = (*TAKEN, "Mean", "Log")
MOST_CHARACTERS = 4 * 10**6


def lengths_input(draft: Draft) -> None:
    """The choice, what it means for this plan, and the ways to bring lengths of one's own."""
    text, chosen = draft.values[FIELD], _chosen(draft)
    typed.mirror(KEY, chosen, _choose)
    st.selectbox(
        short_label(FIELD),
        list(CHOICES),
        index=list(CHOICES).index(chosen),
        format_func=lambda key: CHOICES[key],
        key=KEY,
        help=f"{help_text(FIELD)} Time rests on them; memory stays planned for the longest. "
        f"The typical distribution is for runs whose lengths nobody has counted: {SOURCE}.",
    )
    if text:
        st.caption(_described(draft))
    if chosen == "own":
        with st.container(border=True):
            _own(draft)


def _chosen(draft: Draft) -> str:
    text = draft.values[FIELD]
    if st.session_state.get("own lengths"):
        return "own"
    if not text:
        return "cap"
    return "typical" if text == _typical(draft.values) else "own"


def _typical(values: Any) -> str:
    return to_text(typical(values["response_tokens"]))


def _choose(chosen: str) -> None:
    st.session_state["own lengths"] = chosen == "own"
    st.session_state.pop("lengths error", None)
    if chosen != "own":
        text = _typical(session.draft().values) if chosen == "typical" else ""
        session.edit({FIELD: text})


def _described(draft: Draft) -> str:
    values: Any = SimpleNamespace(**draft.values)
    try:
        said = words(values)
    except ValueError as error:
        return plain(f"{short_label(FIELD)} {error}")
    return f"{said[:1].upper()}{said[1:]}."


def _own(draft: Draft) -> None:
    way = segments("Where from", WAYS, "own lengths way", default=WAYS[0])
    if way == "Counts":
        typed.listen("pasted lengths", lambda text: _take_lines("What was pasted", text.encode()))
        st.text_area(
            "Token counts",
            key="pasted lengths",
            height=120,
            max_chars=MOST_CHARACTERS,
            placeholder="812\n1290\n344\n…",
            help="One response length per line, or a length and the number of responses that have "
            "it. Press Ctrl+Enter to use these lengths.",
        )
    elif way == "File":
        uploader(
            "Token counts, or texts",
            "uploaded lengths",
            type=["csv", "txt", "jsonl"],
            max_upload_size=LARGEST_MB,
            on_change=_take_upload,
            help="Counts: one a line, CSV, or JSON lines. Texts: JSON lines, whose tokens a "
            "tokenizer counts here. Larger files: `python -m planner lengths FILE --tokenizer "
            "FOLDER`.",
        )
    else:
        _figures(draft, logs=way == "Log")
    if way in TAKEN:
        texts.panel(draft.values["model"])
    if "lengths error" in st.session_state:
        st.error(plain(st.session_state["lengths error"]), icon=":material/error:")


def _figures(draft: Draft, *, logs: bool) -> None:
    """A lognormal by mean and spread, or by what a trainer logs."""
    make: Callable[[], Shape]
    cap = draft.values["response_tokens"]
    mean = st.number_input(
        "Mean, tokens",
        1,
        MOST_TOKENS,
        max(cap // 2, 1),
        key="lengths mean",
        help="As logged: response_length/mean (verl), completions/mean_length (TRL)."
        if logs
        else "Mean length if no cap cut any response.",
    )
    if logs:
        cut = st.number_input(
            "Cut at the cap, %",
            0.01,
            99.99,
            10.0,
            key="lengths cut",
            help="response_length/clip_ratio (verl), completions/clipped_ratio (TRL), at this "
            f"plan's cap of {cap:,} tokens.",
        )
        make = partial(logged, mean, cut / 100, cap)
    else:
        spread = st.number_input(
            "Spread, tokens",
            1,
            MOST_TOKENS,
            max(cap // 4, 1),
            key="lengths spread",
            help="Standard deviation.",
        )
        make = partial(lognormal, mean, spread)
    st.button("Use these", key="use lengths", on_click=_take, args=(make,), width="stretch")


def _take_upload() -> None:
    file = sent("uploaded lengths")
    if file is not None:
        _take_lines(file.name, file.getvalue())


def _take_lines(name: str, content: bytes) -> None:
    try:
        _take(lambda: _counted(content.decode("utf-8-sig")))
    except Uncounted:
        texts.keep(texts.Texts(name, content))
    else:
        if "lengths error" not in st.session_state:
            texts.drop()


def _counted(text: str) -> Shape:
    # Lines end where a file's do: a text may hold what str.splitlines takes for an end.
    return grouped(counted(StringIO(text, newline=None)))


def _take(read: Callable[[], Shape]) -> None:
    st.session_state.pop("lengths error", None)
    try:
        text = to_text(read())
    except Uncounted:
        raise
    except UnicodeDecodeError:
        st.session_state["lengths error"] = "The file is not UTF-8 text."
    except ValueError as error:
        st.session_state["lengths error"] = str(error).removeprefix("lengths: ")
    else:
        session.edit({FIELD: text})
