"""The Import page: texts in, the plan that they make, and the person's own file back."""

from __future__ import annotations

from functools import cache, partial

import streamlit as st

from planner import catalog
from planner.catalog.model_catalog import ids
from planner.importer.imported import DECISIVE, Imported
from planner.plan.labels import whole_subject
from planner.ui import compute, verdict
from planner.ui.elements import bullets, choice, doubt, row
from planner.ui.importing import account, errors, measured, rewriting, texts
from planner.ui.state import session
from planner.wording import choices
from planner.wording.display import plain
from planner.wording.fields import label, short_label


def page() -> None:
    """Draw it."""
    st.markdown(
        "Give what you have already: the plan fills itself in and says what it understood. "
        "Nothing of it is run."
    )
    texts.place()
    if not texts.texts():
        return
    found = texts.found()
    _read(found)
    _asks(found)
    planned = session.draft().plan if found.plan is not None else None
    footprint = None if planned is None else compute.shown(planned)
    if footprint is not None:
        verdict.sentence(footprint)
        st.page_link("pages/plan.py", label="Open the plan", icon=":material/rule:")
        rewriting.show(found, footprint)
    errors.show(found, footprint)
    measured.show(found, footprint)
    account.show(found)


def _read(found: Imported) -> None:
    """Whose run it is, in a sentence, and what is wrong with it."""
    if found.plan is not None:
        st.markdown(
            f":material/check_circle: **{plain(whole_subject(found.plan))}**"
        )
    elif not (found.errors or found.logs or found.notes or DECISIVE & {*found.asks}):
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


@cache
def _options() -> dict[str, tuple[str, ...]]:
    """What a field that decides everything can be, where the page has a list of it."""
    cards = tuple(one.key for one in catalog.gpus() if one.budget_bytes)
    return {"model": tuple(ids()), "gpu": cards}


def _named(field: str, value: str) -> str:
    if not value:
        return "Choose"
    return choices.card_names()[value] if field == "gpu" else value


def _asks(found: Imported) -> None:
    """Questions that no text answers: a list for model and GPU, the inputs for the rest."""
    listed = [field for field in found.asks if field in _options()]
    others = [field for field in found.asks if field not in _options()]
    if listed:
        with row("import-asks"):
            for field in listed:
                key = f"import-ask:{field}"
                choice(
                    f"{label(field)} (not in the text)",
                    ("", *_options()[field]),
                    key,
                    format_func=partial(_named, field),
                    on_change=texts.answer,
                    args=(field, key),
                )
    if others and found.plan is not None:
        names = ", ".join(short_label(field) for field in others)
        st.caption(f"Not said either, and planned by default: {names}. Change them in the inputs.")
