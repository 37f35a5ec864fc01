"""The five cards: a document's finding in a sentence, a chart with a slider, and the ways on.

A slider's move runs its card's picture again and nothing else. Sliders do not tell the address
bar: a fragment runs without the frame, and where a slider stands is in no link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import streamlit as st

from planner.charts import examples as charts
from planner.charts.options import option_bars
from planner.examples import dry_runs, lengths, options
from planner.examples.documents import Document
from planner.examples.dry_runs import Case
from planner.examples.planned import planned
from planner.examples.tries import TRIES
from planner.footprint import Footprint
from planner.ui import elements
from planner.ui.elements import folded, row
from planner.ui.examples import claims
from planner.ui.plan.phases import ink
from planner.ui.state import session


def card(document: Document) -> None:
    """One document."""
    number = document.number
    if number not in CARDS:
        return
    picture, opens = CARDS[number]
    with st.container(border=True):
        st.header(document.title, anchor=f"doc-{number}")
        st.markdown(document.finding, help=document.words)
        st.fragment(picture)()
        with row(f"ways-{number}"):
            _way("Open as plan", "open_in_new", f"plan-{number}", "plan", opens)
            _way("Try it", "play_arrow", f"try-{number}", "trial", lambda: TRIES[number])
        total = len(document.claims)
        wrong = sum(one.judgement == "does not follow" for one in document.claims)
        title = f"Its {total} claims: {wrong} do not follow from its own numbers"
        with folded(title, f"claims-{number}", ":material/fact_check:") as is_open:
            if is_open:
                claims.tables(document.groups)


def _way(label: str, icon: str, key: str, page: str, case: Callable[[], Case]) -> None:
    """A button to another page, with the plan that the card shows when it is pressed."""

    def go() -> None:
        found = case()
        session.open_preset(found.preset)
        if found.changes:
            session.apply(found.changes)

    if st.button(label, icon=f":material/{icon}:", key=key, on_click=go):
        st.switch_page(f"pages/{page}.py", query_params={})


def _place(number: str, default: Any) -> Any:
    """Where a card's slider stands."""
    return st.session_state.get(f"slider-{number}", default)


def _slider(number: str, label: str, places: Sequence[Any], default: Any, **more: Any) -> Any:
    return st.select_slider(label, places, value=default, key=f"slider-{number}", **more)


RESPONSE, TOKENS, BATCH, SEQUENCE = 4_000, 64, "4 × 48", 512
"""Where the sliders of documents 000, 001, 002 and 004 begin: at the documents' own runs."""


def intuitor_against_ppo() -> None:
    """Document 000: memory by the length of a response, claimed and planned."""
    response = _slider(
        "000", "Tokens of a response", lengths.RESPONSES, RESPONSE, format_func="{:,}".format
    )
    unit = session.unit()
    found = {length: lengths.sizes(length) for length in lengths.RESPONSES}
    rows = [
        {"x": length, "y": unit.value(size), "name": name, "claimed": name.endswith("claimed")}
        for length, sizes in found.items()
        for name, size in sizes.items()
    ]
    place = found[response]
    figures(
        ("Claimed: PPO", place["PPO, claimed"], "the whole run"),
        (
            "Claimed: Intuitor",
            place["Intuitor, claimed"],
            f"{place['Intuitor, claimed'] / place['PPO, claimed']:.0f} times PPO",
        ),
        ("Planned: PPO", place["PPO, planned"], "each of eight cards"),
        (
            "Planned: Intuitor",
            place["Intuitor, planned"],
            f"{place['Intuitor, planned'] / place['PPO, planned']:.2f} times PPO",
        ),
    )
    card_bytes = planned(lengths.intuitor(RESPONSE)).budget_bytes
    st.altair_chart(
        charts.curves(
            pd.DataFrame(rows).sort_values(["name", "x"], kind="stable"),
            response,
            x_title="tokens of a response; prompt: half",
            y_title=f"memory, {unit.name}",
            capacity=unit.value(card_bytes),
            label=f"one card: {session.read(card_bytes)}",
            ink=ink(),
        ),
        key="chart-000",
        height=charts.PLOT + charts.AROUND,
        alt="Memory of PPO and Intuitor by the length of a response, claimed and planned; the "
        "line above has the numbers at the slider's place.",
    )


def optimised() -> None:
    """Document 001: what each of the six changes does alone."""
    tokens = _slider("001", "Generated tokens", options.TOKENS, TOKENS)
    found = _found(options.optimizations(tokens))
    was = found["As it was"].device_bytes
    figures(
        *(
            (name, found[name].device_bytes, f"{found[name].device_bytes / was:.2f} of it")
            if name != "As it was"
            else (name, was, f"{tokens} tokens")
            for name in ("As it was", "Checkpoint each token", "Half the tokens", "All six")
        )
    )
    _bars("001", found, options.optimizations(options.TOKENS[-1]))


def out_of_memory() -> None:
    """Document 002: the run before and after, by its batch."""
    batch = _slider("002", "Rows × generated tokens", [*options.BATCHES], BATCH)
    found = _found(options.changes(*options.BATCHES[batch]))
    budget = found["As it was"].budget_bytes
    figures(
        ("The card", budget, "what it holds"),
        *(
            (name, one.device_bytes, f"{one.device_bytes / budget:.2f} of the card")
            for name, one in found.items()
        ),
    )
    _bars("002", found, options.changes(*[*options.BATCHES.values()][-1]))


def activations() -> None:
    """Document 004: the reference's options, by the length of a sequence."""
    tokens = _slider(
        "004", "Tokens of a sequence", options.SEQUENCES, SEQUENCE, format_func="{:,}".format
    )
    rows = options.references(tokens, session.unit().read)
    peaks = {row.option: row.value or 0.0 for row in rows if row.measure == rows[0].measure}
    budget = planned(options.sequence(tokens).plan).budget_bytes
    off = peaks[OFF]
    figures(
        ("The card", budget, "what it holds"),
        (OFF, off, "the cheapest"),
        *((name, peaks[name], f"{session.read(peaks[name] - off)} more") for name in MORE),
    )
    widest = options.references(options.SEQUENCES[-1], session.unit().read)
    st.altair_chart(
        option_bars(
            pd.DataFrame(map(asdict, rows)),
            ink=ink(),
            most={
                measure: max(row.value or 0.0 for row in widest if row.measure == measure)
                for measure in {row.measure for row in widest}
            },
        ),
        key="chart-004",
        alt="; ".join(f"{row.measure}, {row.option}: {row.text}" for row in rows),
    )


OFF, MORE = "Adapters disabled", ("Copy", "Option 2 as it is")
"""Options of document 004's chart whose numbers stand above it."""


def figures(*given: tuple[str, float, str]) -> None:
    """Four numbers that change in their places: what of, bytes, and a line below."""
    places = elements.cards(4, 140)
    for label, size, below in given:
        elements.card(places, label, session.read(size), below)


def _found(cases: Sequence[Case]) -> Mapping[str, Footprint]:
    return {case.label: planned(case.plan) for case in cases}


def _bars(number: str, found: Mapping[str, Footprint], largest: Sequence[Case]) -> None:
    """The options against the card, on an axis that holds the largest place's too."""
    unit = session.unit()
    rows = []
    for name, footprint in found.items():
        peak = max(footprint.phases, key=lambda phase: (phase.device_bytes, phase.own_bytes))
        parts = dict.fromkeys(charts.PARTS, 0)
        for category, size in peak.by_category().items():
            parts[charts.part_of(category)] += size
        rows += [
            {
                "name": name,
                "part": part,
                "memory": unit.value(size),
                "total": unit.value(footprint.device_bytes),
                "word": footprint.verdict.word,
            }
            for part, size in parts.items()
        ]
    most = max(footprint.device_bytes for footprint in _found(largest).values())
    budget = next(iter(found.values())).budget_bytes
    st.altair_chart(
        charts.options(
            pd.DataFrame(rows),
            capacity=unit.value(budget),
            most=unit.value(most),
            unit=unit.name,
            ink=ink(),
        ),
        key=f"chart-{number}",
        height=charts.ROW * len(found) + charts.AROUND,
        alt="; ".join(
            f"{name} {session.read(footprint.device_bytes)}" for name, footprint in found.items()
        ),
    )


CARDS: Mapping[str, tuple[Callable[[], None], Callable[[], Case]]] = {
    "000": (
        intuitor_against_ppo,
        lambda: Case(
            label="Intuitor", preset=lengths.REAL, changes=lengths.at(_place("000", RESPONSE))
        ),
    ),
    "001": (
        optimised,
        lambda: Case(
            label="All but fewer tokens",
            preset=dry_runs.OPTIMISED,
            changes=options.answered(_place("001", TOKENS)),
        ),
    ),
    "002": (
        out_of_memory,
        lambda: options.changes(*options.BATCHES[_place("002", BATCH)])[0],
    ),
    "004": (activations, lambda: options.sequence(_place("004", SEQUENCE))),
}
"""Each document's picture, and the plan that it shows."""
