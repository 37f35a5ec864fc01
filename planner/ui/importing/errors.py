"""Out-of-memory messages: what the text says, which tensor it is, and what to change."""

from __future__ import annotations

from functools import lru_cache

import streamlit as st

from planner.footprint import Footprint
from planner.importer.diagnosis import Diagnosis, diagnose
from planner.importer.imported import Imported
from planner.plan import Plan
from planner.ui import compute
from planner.ui.elements import bullets, doubt, said
from planner.ui.importing import texts
from planner.ui.plan import suggested

SHOWN = 3
"""Messages that are explained: a run of eight ranks prints the same eight times."""
CERTAIN = {
    "one tensor": ":green-badge[One tensor of the plan has this size]",
    "several tensors": ":orange-badge[Several tensors have this size]",
    "phase only": ":orange-badge[The phase alone]",
    "nothing": ":gray-badge[The text does not say which]",
}


def show(found: Imported, footprint: Footprint | None) -> None:
    """Each message, the first in full."""
    for number, message in enumerate(found.errors[:SHOWN]):
        st.subheader(f"Out of memory: {message.form}", anchor=False)
        st.code(message.text, language=None, wrap_lines=True)
        try:
            plan = None if footprint is None else footprint.plan
            rests_on = None if plan is None else compute.rests_on(plan)
            _explained(_diagnosed(message.text, number, plan, rests_on), number)
        except ValueError as error:
            doubt(error)
    if len(found.errors) > SHOWN:
        st.caption(f"{len(found.errors) - SHOWN} more messages are in the text.")


@lru_cache(maxsize=32)
def _diagnosed(text: str, number: int, plan: Plan | None, rests_on: object) -> Diagnosis:
    """Kept, since it estimates each fix again; by what the page's figures rest on."""
    footprint = None if plan is None else compute.shown(plan)
    return diagnose(texts.found().errors[number], footprint)


def _explained(found: Diagnosis, number: int) -> None:
    if found.places:
        place = found.places[0]
        tensor = f": {said(place.term.name)}" if place.term else ""
        st.markdown(f"{CERTAIN[found.sure]} **{said(place.phase)}**{tensor}")
    bullets((*found.said, *found.following))
    if found.fixes:
        suggested.cards(found.fixes, f"import-fix:{number}")
