"""The Import page: texts in, the plan that they make, and the person's own file back."""

from __future__ import annotations

import streamlit as st

from planner.importer.imported import Imported
from planner.plan.labels import whole_subject
from planner.ui import compute, verdict
from planner.ui.elements import bullets, doubt, said
from planner.ui.importing import account, texts
from planner.ui.state import session
from planner.wording.display import plain


def page() -> None:
    """Draw it."""
    st.markdown(
        "Give what you have already: the plan fills itself in, and says what was understood. "
        "Nothing of it is run."
    )
    texts.place()
    if not texts.texts():
        return
    found = texts.found()
    _read(found)
    planned = session.draft().plan
    if found.plan is not None and planned is not None:
        verdict.sentence(compute.shown(planned))
    account.show(found)


def _read(found: Imported) -> None:
    """Whose run it is, in a sentence, and what is wrong with it."""
    if found.plan is not None:
        st.success(
            f"**{said(found.trainer)}: {plain(whole_subject(found.plan))}**",
            icon=":material/check_circle:",
        )
    elif not found.errors:
        doubt(_nothing(found))
    for problem in found.problems:
        doubt(problem.sentence)
    if found.notes:
        bullets(found.notes)


def _nothing(found: Imported) -> str:
    if found.trainer:
        return f"This is of {found.trainer}, and makes no plan."
    return (
        "Nothing here was understood. Paste the script that starts the run, or the trainer's "
        "configuration."
    )
