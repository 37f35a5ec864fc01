"""What the visitor pasted or dropped: texts of this visit, by name, and what they said."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import streamlit as st

from planner.importer.imported import MOST_TEXTS, Imported, imported
from planner.plan.link import Reading
from planner.problem import Problem
from planner.ui import uploads
from planner.ui.elements import button, row
from planner.ui.state import session
from planner.units import read_count
from planner.wording.display import plain

TEXTS, ANSWERS, PASTE = "imported texts", "import answers", "import paste"
FILES, ROUND = "import files", "import round"
PASTED = "pasted text"
HEIGHT = 220
NAME_CHARACTERS = 60
LONGEST = 60
"""Characters of a value in a sentence."""


def texts() -> Mapping[str, str]:
    """By name, in the order in which they came."""
    return dict(st.session_state.get(TEXTS, {}))


def answers() -> Mapping[str, Any]:
    """Fields that the visitor said besides, since no text does."""
    return dict(st.session_state.get(ANSWERS, {}))


def found() -> Imported:
    """What texts and answers said."""
    return _imported(tuple(texts().items()), tuple(answers().items()))


@lru_cache(maxsize=32)
def _imported(
    given: tuple[tuple[str, str], ...], said: tuple[tuple[str, Any], ...]
) -> Imported:
    """Kept, since a page is drawn at every press; a text names nothing that could change."""
    return imported(dict(given), dict(said))


def answer(field: str, key: str) -> None:
    """Take what a widget says of a field."""
    value = st.session_state.get(key)
    if value not in (None, ""):
        st.session_state[ANSWERS] = {**answers(), field: value}
        _plan()


def place() -> None:
    """Where to paste and to drop, and what came so far."""
    st.text_area(
        "Paste a script, a configuration, a log or an error",
        key=PASTE,
        height=HEIGHT,
        placeholder="python3 -m verl.trainer.main_ppo \\\n    data.train_batch_size=256 …",
        help="A shell script, hydra overrides, a YAML or JSON file, a Python script that builds a "
        "trainer's configuration, what a run printed, or an out-of-memory message. Nothing of it "
        "is run.",
    )
    with row("import-controls"):
        button("Read", "import-read", "input", _pasted, type="primary")
        if texts():
            button("Start over", "import-over", "restart_alt", _forget, type="tertiary")
    uploads.uploader(
        "Or drop files of one run: script, configurations, logs",
        _files_key(),
        several=True,
        on_change=_dropped,
    )
    for number, (name, text) in enumerate(texts().items()):
        with row(f"import-text:{number}"):
            lines = read_count(len(text.splitlines()), "line")
            st.markdown(f":material/description: {plain(name)} :small[{lines}]")
            button("Remove", f"import-remove:{number}", "close", _remove, name, type="tertiary")


def _files_key() -> str:
    """Another uploader once its files were taken: Streamlit's keeps them else."""
    return f"{FILES}:{st.session_state.get(ROUND, 0)}"


def _pasted() -> None:
    text = str(st.session_state.get(PASTE, ""))
    if not text.strip():
        return
    known = texts()
    number = 1 + sum(name.startswith(PASTED) for name in known)
    name = PASTED if number == 1 else f"{PASTED} {number}"
    _take({**known, name: text})
    st.session_state[PASTE] = ""


def _dropped() -> None:
    known = dict(texts())
    for file in uploads.sent_together(_files_key()):
        known[file.name[-NAME_CHARACTERS:]] = file.getvalue().decode("utf-8", "replace")
    st.session_state[ROUND] = st.session_state.get(ROUND, 0) + 1
    _take(known)


def _remove(name: str) -> None:
    _take({other: text for other, text in texts().items() if other != name})


def _forget() -> None:
    _take({})


def _take(given: Mapping[str, str]) -> None:
    """These are the texts now; the plan that they make is the page's."""
    st.session_state[TEXTS] = dict(list(given.items())[:MOST_TEXTS])
    if not given:
        st.session_state.pop(ANSWERS, None)
    _plan()


def _plan() -> None:
    """What they make is the page's plan, with what of it could not be planned."""
    read = found()
    if read.plan is None:
        return
    session.open_plan(read.plan)
    if read.left_out:
        session.remember_reading(
            Reading(
                plan=read.plan,
                problems=(*read.problems, *_problems(read)),
                left_out=tuple((name, text) for name, text, _ in read.left_out),
                moves=tuple((name, why.rstrip(".")) for name, _, why in read.left_out if why),
                of="import",
            )
        )


def _problems(read: Imported) -> list[Problem]:
    return [
        Problem(name, f"{name} {text[:LONGEST]} is not planned.", why)
        for name, text, why in read.left_out
        if why
    ]
