"""What a card of this machine reaches: measured on request, shown beside what was published.

A benchmark is a process of its own and belongs to the machine, as a trial does. Applied values
stand in the address, every time on the pages then rests on them, and the message above every page
says so and takes them off.

Session key, set here only: ``benchmark error`` why the last press started nothing. ``benchmark-…``
are widgets.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from planner.benchmark.ask import archive, process
from planner.benchmark.ask.process import BUDGET_SECONDS, BenchmarkState
from planner.benchmark.ask.words import HEADER, LABELS, compared, constants
from planner.catalog.card_benchmark import CardBenchmark, speeds_of
from planner.plan import Plan
from planner.speeds import obstacle, speeds_to_text
from planner.trial.ask.cards import Card
from planner.ui import session
from planner.ui.messages import plain
from planner.ui.trial_allowed import permitted

ERROR = "benchmark error"
POLL = "1s"
ROW = 35
"""Pixels of a table's row."""
WHAT = (
    f"Measures for {BUDGET_SECONDS:.0f} seconds what share of its peaks a card reaches in layers, "
    "memory and copies; the estimate's times can then rest on that in place of published runs."
)
NO_CARD = (
    "No NVIDIA driver answers on this machine, and a benchmark of a processor changes no "
    "estimate. On a machine with a card, `python -m planner benchmark` measures it."
)


def section(plan: Plan, cards: Sequence[Card]) -> None:
    """On Trial: the button, its progress, and what the last benchmark found."""
    st.subheader("Measure this device", anchor="benchmark")
    if cards:
        st.caption(WHAT)
        device = _device(cards)
        running = [state for state in process.states() if state.running]
        drawn = st.fragment(_panel, run_every=POLL if running else None)
        drawn(device, tuple(state.identifier for state in running))
    else:
        st.caption(NO_CARD)
    found = _shown(plan)
    if found is not None:
        _result(found, plan)


def _device(cards: Sequence[Card]) -> str:
    names = {card.device: f"{card.name} ({card.device})" for card in cards}
    if len(names) == 1:
        return next(iter(names))
    chosen = st.selectbox(
        "Card to measure",
        list(names),
        key="benchmark-device",
        format_func=names.__getitem__,
        on_change=session.acted,
    )
    return str(chosen)


def _panel(device: str, seen: tuple[str, ...]) -> None:
    states = process.states()
    running = [state for state in states if state.running]
    if tuple(state.identifier for state in running) != seen:
        st.rerun()  # the whole page, so that looking begins or ends, and the result appears
    with st.container(horizontal=True, vertical_alignment="center", key="benchmark-controls"):
        st.button(
            f"Measure {device} ({BUDGET_SECONDS:.0f} seconds)",
            key="benchmark-start",
            icon=":material/timer:",
            disabled=bool(running),
            on_click=_start,
            args=(device,),
            help="Not while a trial runs on it, since both would be wrong.",
        )
        for state in running:
            _progress(state)
    if ERROR in st.session_state:
        st.error(plain(st.session_state[ERROR]), icon=":material/error:")
    for state in [state for state in states if not state.running][:1]:
        st.warning(plain(state.reason), icon=":material/info:")
        st.button("Dismiss", key="benchmark-dismiss", on_click=_dismiss, args=(state.identifier,))


def _progress(state: BenchmarkState) -> None:
    done = min(state.number / state.count, 1.0) if state.count else 0.0
    st.progress(done, text=plain(state.doing))
    st.button(
        "Stop",
        key=f"benchmark-stop-{state.identifier}",
        icon=":material/stop:",
        on_click=_stop,
        args=(state.identifier,),
    )


def _start(device: str) -> None:
    session.acted()
    st.session_state.pop(ERROR, None)
    if not permitted():
        return
    try:
        process.start(device)
    except OSError as error:
        st.session_state[ERROR] = (
            f"The benchmark cannot start: {error.strerror or error}. Set HEADROOM_DATA to a "
            "folder that the app may write to."
        )


def _stop(identifier: str) -> None:
    session.acted()
    folder = process.find(identifier) if permitted() else None
    if folder is not None:
        process.stop(folder)


def _dismiss(identifier: str) -> None:
    session.acted()
    folder = process.find(identifier) if permitted() else None
    if folder is not None:
        process.forget(folder)


def _remove(identifier: str) -> None:
    session.acted()
    if permitted():
        archive.remove(identifier)


def _shown(plan: Plan) -> CardBenchmark | None:
    """The newest benchmark of the plan's card, or else the newest of any card."""
    found = [one for one in archive.kept() if one.device.kind == "cuda"]
    own = [one for one in found if one.device.gpu == plan.gpu]
    return next(iter(own or found), None)


def _result(found: CardBenchmark, plan: Plan) -> None:
    rows = pd.DataFrame(compared(found), columns=[name.capitalize() for name in HEADER])
    rows["Efficiency"] = [LABELS[one.key] for one in found.derived]
    st.markdown(f"**{plain(found.device.name)}**, {found.created[:10]}")
    if found.derived:
        st.dataframe(
            rows,
            hide_index=True,
            height=(len(rows) + 1) * ROW + 3,
            key="benchmark-table",
            alt="Shares of the card's peaks, measured and published",
        )
    versions = ", ".join(f"{name} {text}" for name, text in found.versions.items())
    st.caption(plain(" · ".join((versions, *constants(found)))))
    for note in found.notes:
        st.caption(plain(note))
    speeds = speeds_of(found)
    with st.container(horizontal=True, vertical_alignment="center", key="benchmark-result"):
        if speeds is not None:
            why = obstacle(speeds, plan)
            if why:
                st.caption(plain(why))
            elif session.speeds() == speeds:
                st.markdown(":material/check: Applied; the message above the page takes it off.")
            else:
                st.button(
                    "Apply to this plan",
                    key="benchmark-apply",
                    icon=":material/tune:",
                    on_click=session.apply_speeds,
                    args=(speeds_to_text(speeds),),
                    help="The link carries it, so that whoever opens it sees the same times.",
                )
        st.button(
            "Remove",
            key="benchmark-remove",
            icon=":material/delete:",
            on_click=_remove,
            args=(found.id,),
            help="Deletes this benchmark from the machine; a link that carries it stays.",
        )
