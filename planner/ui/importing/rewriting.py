"""The person's own file with the change that makes the plan fit, as a diff and to save."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

import streamlit as st

from planner.footprint import Footprint
from planner.importer.imported import Imported
from planner.importer.rewriting import Rewritten, patch, rewritten, suggested
from planner.launch.bundle.anew import described_anew
from planner.ui import compute
from planner.ui.elements import bullets, download
from planner.ui.plan import suggested as suggestions
from planner.wording.fields import labelled

WANTED = "import fit wanted"


def show(found: Imported, footprint: Footprint) -> None:
    """The way to make it fit, or what an edit of the plan does to the files."""
    if found.plan is None:
        return
    if footprint.plan != found.plan:
        st.subheader("Your file, with the plan as it is now", anchor=False)
        _files(found, rewritten(found, footprint.plan))
        return
    if footprint.verdict.word == "fits":
        return
    if not st.session_state.get(WANTED):
        st.button(
            "Make it fit",
            key="import-fit",
            type="primary",
            icon=":material/build:",
            on_click=_want,
            help="Looks for the smallest change that fits, and writes it into your file.",
        )
        return
    with st.spinner("Looking for what fits…"):
        ways = compute.advice(footprint.plan).ways
    if not ways:
        st.markdown("None of the changes tried makes this plan fit.")
        return
    suggestions.card(ways[0], "import-way", first=True)
    if footprint.verdict.incomplete:
        st.caption("Judged without what is left out of the plan.")
    st.subheader("Your file, with this change", anchor=False)
    _files(found, suggested(found, ways[0]))


def _want() -> None:
    st.session_state[WANTED] = True


def _files(found: Imported, new: Rewritten) -> None:
    assert found.plan is not None
    texts, notes = described_anew(new.texts, found.plan, new.plan)
    new = replace(new, texts=texts, notes=(*new.notes, *notes))
    changed = [name for name, text in new.texts.items() if text != found.texts.get(name)]
    if not changed:
        st.caption("No line of these files says it otherwise.")
    else:
        st.code(patch(found, new), language="diff", wrap_lines=True)
    for name in changed:
        path = PurePosixPath(name)
        saved = path.name if path.suffix else f"{path.name.replace(' ', '-')}.sh"
        download(f"Save {saved}", new.texts[name], saved, f"import-save:{name}")
    if new.notes:
        bullets([labelled(note) for note in new.notes])
