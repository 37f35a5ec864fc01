"""The breakdown of a footprint: bytes of a phase, seconds of a step, what they yield."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from planner.cost import Cost
from planner.footprint import Footprint, Phase
from planner.term import Term
from planner.ui.elements import beside, opened, segments, share_column
from planner.ui.plan import seconds
from planner.ui.state import session
from planner.ui.tables import phase_name
from planner.wording.display import kind_of, put_in
from planner.wording.fields import labelled

MEMORY, TIME, RATES = "Memory", "Time", "Throughput and cost"


def numbers(footprint: Footprint, price: Cost, phase: Phase) -> None:
    """One table, and beside it how the chosen row of it is computed.

    ``phase`` is the one whose memory is listed.
    """
    st.subheader("Breakdown", anchor="terms")
    kind = segments("Show", (MEMORY, TIME, RATES), "numbers of", default=MEMORY)
    if kind == TIME:
        seconds.causes(footprint)
    elif kind == RATES:
        seconds.rates(footprint, price)
    else:
        _list(phase)


def _list(phase: Phase) -> None:
    found = sorted(phase.terms, key=lambda term: (term.host, -int(term.bytes)))
    levels = ("requested", "allocated", "reserved", "device")
    totals = [f"{level} {session.read(getattr(phase, f'{level}_bytes'))}" for level in levels]
    st.caption(f"{phase_name(phase)}, at {phase.instant}: {', '.join(totals)}.")
    rows = pd.DataFrame(
        {
            "Size": session.read(int(term.bytes)),
            "What": term.name,
            "Model": term.role,
            "Kind": "host RAM" if term.host else kind_of(term.category),
            "Share": None
            if term.host
            else 100 * int(term.bytes) / max(phase.device_bytes, 1),
        }
        for term in found
    )
    alt = "What is allocated at the phase's peak"
    listed, panel = beside(5, 3)
    with listed:
        place = opened(rows, f"terms:{phase.name}", alt, {"Share": share_column()})
    with panel:
        st.markdown(f"**{found[place].name}** · {found[place].role}")
        explain(found[place])


def explain(term: Term) -> None:
    """Formula, the same with the numbers put in, source, and what is left out."""
    st.code(
        f"{term.formula}\n= {put_in(term.formula, term.inputs)}\n= {int(term.bytes):,} bytes",
        language=None,
        wrap_lines=True,
    )
    left_out = f" Left out: {term.ignores}." if term.ignores else ""
    bounds = ""
    if term.low is not None and term.high is not None and term.low <= term.high:
        least, most = (session.read(int(size)) for size in (term.low, term.high))
        bounds = f"Between {least} and {most}. "
    st.caption(labelled(f"{bounds}Source: {term.source}.{left_out}"))
