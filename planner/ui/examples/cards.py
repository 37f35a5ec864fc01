"""The five cards: a document's finding in a sentence, a chart with a slider, and the ways on.

A slider's move runs its card's picture again and nothing else. Sliders do not tell the address
bar: a fragment runs without the frame, and where a slider stands is in no link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import streamlit as st

from planner.examples import dry_runs, lengths, options, prompts
from planner.examples.documents import Document
from planner.examples.dry_runs import Case
from planner.examples.tries import TRIES
from planner.plan.presets import newest
from planner.ui.elements import folded, row
from planner.ui.examples import claims, pictures, recommended
from planner.ui.examples.pictures import BATCH, PROMPTS, RESPONSE, SEQUENCE, TOKENS, place
from planner.ui.sampling import state as sampling
from planner.ui.state import session


def card(document: Document) -> None:
    """One document."""
    number = document.number
    own = CARDS[number]
    with st.container(border=True):
        st.header(document.title, anchor=f"doc-{number}")
        st.markdown(document.finding, help=document.words)
        st.fragment(own.picture)()
        with row(f"ways-{number}"):
            _way("Open as plan", "open_in_new", f"plan-{number}", own.plan_page, own.open)
            _way("Try it", "play_arrow", f"try-{number}", own.trial_page, own.attempt)
        if own.below is not None:
            own.below()
        total = len(document.claims)
        wrong = sum(one.judgement == "does not follow" for one in document.claims)
        title = f"All {total} claims: {wrong} do not follow from the document's own numbers"
        with folded(title, f"claims-{number}", ":material/fact_check:") as is_open:
            if is_open:
                claims.tables(document.groups)


def _way(label: str, icon: str, key: str, page: str, go: Callable[[], None]) -> None:
    """A button to another page, with the plan that the card shows when it is pressed."""
    if st.button(label, icon=f":material/{icon}:", key=key, on_click=go):
        st.switch_page(f"pages/{page}.py", query_params={})


def _open(case: Case) -> None:
    session.open_preset(case.preset)
    if case.changes:
        session.apply(case.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A document's picture, and what its two buttons open on which pages."""

    picture: Callable[[], None]
    open: Callable[[], None]
    attempt: Callable[[], None]
    plan_page: str = "plan"
    trial_page: str = "trial"
    below: Callable[[], None] | None = None
    """What stands between the buttons and the claims."""


def _planned(number: str, picture: Callable[[], None], shown: Callable[[], Case]) -> Card:
    return Card(
        picture=picture, open=lambda: _open(shown()), attempt=lambda: _open(TRIES[number])
    )


CARDS: Mapping[str, Card] = {
    "000": replace(
        _planned(
            "000",
            pictures.intuitor_against_ppo,
            lambda: Case(
                label="Intuitor", preset=lengths.REAL, changes=lengths.at(place("000", RESPONSE))
            ),
        ),
        below=lambda: recommended.answered(_open),
    ),
    "001": _planned(
        "001",
        pictures.optimised,
        lambda: Case(
            label="All but fewer tokens",
            preset=newest(dry_runs.OPTIMISED),
            changes=options.answered(place("001", TOKENS)),
        ),
    ),
    "002": _planned(
        "002",
        pictures.out_of_memory,
        lambda: options.changes(*options.BATCHES[place("002", BATCH)])[0],
    ),
    "003": Card(
        picture=pictures.density,
        open=lambda: sampling.set_plan(prompts.case(place("003", PROMPTS))),
        attempt=lambda: sampling.set_plan(prompts.SMALL),
        plan_page="sampling",
        trial_page="sampling",
    ),
    "004": _planned("004", pictures.activations, lambda: options.sequence(place("004", SEQUENCE))),
}
"""By document."""
