"""The pictures of the example cards: a slider, four figures and a chart for each document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import streamlit as st

from planner.charts import examples as charts
from planner.charts.options import option_bars
from planner.charts.sampling import growth
from planner.examples import lengths, options, prompts
from planner.examples.dry_runs import Case
from planner.examples.planned import planned
from planner.footprint import Footprint
from planner.ui import elements
from planner.ui.elements import ink
from planner.ui.state import session


def place(number: str, default: Any) -> Any:
    """Where a card's slider stands."""
    return st.session_state.get(f"slider-{number}", default)


def _slider(number: str, label: str, places: Sequence[Any], default: Any, **more: Any) -> Any:
    return st.select_slider(label, places, value=default, key=f"slider-{number}", **more)


RESPONSE, TOKENS, BATCH, PROMPTS, SEQUENCE = 4_000, 64, "4 × 48", 28_000, 512
"""Where the documents' sliders begin, 000 to 004: at their own runs."""


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
        ("Headroom: PPO", place["PPO, planned"], "each of eight cards"),
        (
            "Headroom: Intuitor",
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
        alt="Memory of PPO and Intuitor by response length, claimed and planned; the line above "
        "has the numbers at the slider's position.",
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
    shown = ((label, session.read(size), below) for label, size, below in given)
    elements.wall(*shown, width=140)


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


def density() -> None:
    """Document 003: host RAM of each mode, by the number of prompts."""
    number = _slider("003", "Prompts", prompts.PROMPTS, PROMPTS, format_func="{:,}".format)
    unit, found = session.unit(), prompts.host_bytes()
    plan = prompts.case(number)
    figures(
        ("The machine", plan.host_ram, "host RAM"),
        *(
            (mode.capitalize(), sizes[number], f"{sizes[number] / plan.host_ram:,.2f} of it")
            for mode, sizes in found.items()
        ),
    )
    rows = [
        {"prompts": at, "mode": mode, "memory": unit.value(size), "chosen": mode == plan.mode}
        for mode, sizes in found.items()
        for at, size in sizes.items()
    ]
    st.altair_chart(
        growth(
            pd.DataFrame(rows),
            capacity=unit.value(plan.host_ram),
            here=number,
            unit=unit.name,
            ink=ink(),
        ),
        key="chart-003",
        height=charts.PLOT + charts.AROUND,
        alt="Host RAM of each mode by number of prompts; the line above has the numbers at the "
        "slider's position.",
    )
