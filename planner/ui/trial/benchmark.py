"""What a card of this machine reaches: measured on request, shown beside what was published.

A benchmark is a process of its own and belongs to the machine, as a trial does. Applied values
stand in the address, every time on the pages then rests on them, and the message above every page
says so and takes them off.

Session key: ``benchmark error`` why the last press started nothing. ``benchmark-…`` are widgets.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from planner.benchmark.ask import archive
from planner.benchmark.ask.process import BENCHMARKS, BUDGET_SECONDS, BenchmarkRequest
from planner.benchmark.ask.words import HEADER, LABELS, compared, constants
from planner.catalog.card_benchmark import CardBenchmark, speeds_of
from planner.jobs.processes import JobState
from planner.jobs.strict import JobResult
from planner.plan import Plan
from planner.plan.facts import obstacle
from planner.plan.query import BENCHMARK
from planner.speeds import speeds_to_text
from planner.trial.ask.cards import Card
from planner.ui.elements import doubt, named_choice, row, text_table
from planner.ui.state import session
from planner.ui.trial import controls
from planner.ui.trial.allowed import permitted
from planner.wording.display import plain

WHAT = (
    f"Measures for {BUDGET_SECONDS:.0f} seconds what share of its peak rates this GPU reaches in "
    "GEMMs, memory access and copies. Estimates can then use these shares instead of published "
    "runs."
)
State = JobState[BenchmarkRequest, JobResult]
NO_CARD = (
    "There is no NVIDIA GPU here, and a CPU benchmark changes no estimate. On a machine with a "
    "GPU, run `python -m planner benchmark`."
)


def section(plan: Plan, cards: Sequence[Card]) -> None:
    """On Trial: the button, its progress, and what the last benchmark found."""
    st.subheader("Measure this device", anchor="benchmark")
    if cards:
        st.caption(WHAT)
        controls.watched(_panel, _running, _device(cards))
    else:
        st.markdown(NO_CARD)
    found = _shown(plan)
    if found is not None:
        _result(found, plan)


def _device(cards: Sequence[Card]) -> str:
    names = {card.device: f"{card.name} ({card.device})" for card in cards}
    if len(names) == 1:
        return next(iter(names))
    return named_choice("Card to measure", names, "benchmark-device")


def _running() -> list[State]:
    return [state for state in BENCHMARKS.states() if state.running]


def _panel(running: list[State], device: str) -> None:
    with row("benchmark-controls"):
        st.button(
            f"Measure {device} ({BUDGET_SECONDS:.0f} seconds)",
            key="benchmark-start",
            icon=":material/timer:",
            disabled=bool(running),
            on_click=controls.start,
            args=("benchmark", BENCHMARKS.start, BenchmarkRequest(device=device)),
            help="Do not run this during a trial on the same GPU: both results would be wrong.",
        )
        for one in running:
            name, doing = one.identifier, one.doing if one.events else "imports"
            number, count = one.latest("number"), one.latest("count")
            controls.progress("benchmark", BENCHMARKS, name, number, count, doing)
    controls.refused("benchmark")
    ended = [(one, one.result) for one in BENCHMARKS.states() if one.result is not None]
    for state, why in ended[:1]:
        doubt(why.reason)
        st.button(
            "Dismiss",
            key="benchmark-dismiss",
            on_click=controls.on_folder,
            args=(BENCHMARKS, BENCHMARKS.forget, state.identifier),
        )


def _remove(identifier: str) -> None:
    if permitted():
        archive.remove(identifier)


def _shown(plan: Plan) -> CardBenchmark | None:
    """The newest benchmark of the plan's card, or else the newest of any card."""
    found = [one for one in archive.kept() if one.device.kind == "cuda"]
    own = [one for one in found if one.device.gpu == plan.gpu]
    return next(iter(own or found), None)


def _result(found: CardBenchmark, plan: Plan) -> None:
    st.markdown(f"**{plain(found.device.name)}**, {found.created[:10]}")
    if found.derived:
        rows = pd.DataFrame(compared(found), columns=[name.capitalize() for name in HEADER])
        rows["Efficiency"] = [LABELS[one.key] for one in found.derived]
        alt = "Shares of the card's peaks, measured and published"
        text_table(rows, "benchmark-table", alt, right=rows.shape[1])
    versions = ", ".join(f"{name} {text}" for name, text in found.versions.items())
    for text in (" · ".join((versions, *constants(found))), *found.notes):
        st.caption(plain(text))
    speeds = speeds_of(found)
    with row("benchmark-result"):
        if speeds is not None:
            controls.offer(
                BENCHMARK,
                speeds_to_text(speeds),
                "Apply to this plan",
                obstacle(speeds, plan),
                session.speeds() == speeds,
                "The link then carries the benchmark, so whoever opens the link sees the same "
                "times.",
            )
        st.button(
            "Remove",
            key="benchmark-remove",
            icon=":material/delete:",
            on_click=_remove,
            args=(found.id,),
            help="Deletes this benchmark from the machine; links that carry the benchmark keep it.",
        )
