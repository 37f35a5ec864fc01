"""Every number of a footprint, opened: bytes of a phase, seconds of a step, what they yield."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.cost import Cost
from planner.footprint import Footprint, Phase, Term
from planner.ui.display import put_in
from planner.ui.elements import opened, segments, share_column
from planner.ui.inputs.fields import labelled
from planner.ui.plan import seconds
from planner.ui.state import session
from planner.ui.tables import phase_name

MEMORY, TIME, RATES = "Memory", "Time", "Throughput and cost"


def numbers(footprint: Footprint, price: Cost) -> None:
    """A table of terms; the chosen one opens to its formula below."""
    st.subheader("Every number, opened", anchor="terms")
    kind = segments("Numbers of", (MEMORY, TIME, RATES), "numbers of", default=MEMORY)
    if kind == TIME:
        seconds.causes(footprint)
    elif kind == RATES:
        seconds.rates(footprint, price)
    else:
        _memory(footprint)


def _memory(footprint: Footprint) -> None:
    phases = {phase_name(phase): phase for phase in footprint.phases}
    worst = phase_name(footprint.worst)
    if st.session_state.get("phase") not in phases or "phase by hand" not in st.session_state:
        st.session_state["phase"] = worst
    chosen = st.selectbox(
        "Phase",
        list(phases),
        key="phase",
        on_change=_phase_chosen,
        format_func=lambda name: f"{name} (the worst)" if name == worst else name,
        help="What is alive on the GPU at the phase's worst moment. The terms add up to its peak.",
    )
    _list(phases[chosen])


def _phase_chosen() -> None:
    """From now on the page stays at the chosen phase instead of following the worst one."""
    st.session_state["phase by hand"] = True
    session.acted()


def _list(phase: Phase) -> None:
    found = sorted(phase.terms, key=lambda term: (term.host, -int(term.bytes)))
    levels = ("requested", "allocated", "reserved", "device")
    totals = [f"{level} {session.read(getattr(phase, f'{level}_bytes'))}" for level in levels]
    st.caption(f"At {phase.instant}: {', '.join(totals)}.")
    rows = pd.DataFrame(
        {
            "Size": session.read(int(term.bytes)),
            "What": term.name,
            "Model": term.role,
            "Kind": "host RAM" if term.host else term.category,
            "Share of peak": None
            if term.host
            else 100 * int(term.bytes) / max(phase.device_bytes, 1),
        }
        for term in found
    )
    alt = "What is alive at the phase's worst moment"
    explain(found[opened(rows, f"terms:{phase.name}", alt, {"Share of peak": share_column()})])


def explain(term: Term) -> None:
    """Formula, the same with the numbers put in, source, and what is left out."""
    st.code(
        f"{term.formula}\n= {put_in(term.formula, term.inputs)}\n= {int(term.bytes):,} bytes",
        language=None,
        wrap_lines=True,
    )
    left_out = f" Left out: {term.ignores}." if term.ignores else ""
    bounds = ""
    if term.low is not None and term.high is not None:
        least, most = (session.read(int(size)) for size in (term.low, term.high))
        bounds = f"Between {least} and {most}. "
    st.caption(labelled(f"{bounds}Source: {term.source}.{left_out}"))
