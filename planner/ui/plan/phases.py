"""Every phase's peak against the card: a chart, the same as a table, and the terms."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from planner.charts import bars
from planner.charts.marks import INK
from planner.footprint import Footprint, Phase, Term
from planner.ui.display import percent, put_in
from planner.ui.elements import folded, numbers
from planner.ui.state import session
from planner.ui.tables import bar_rows, phase_name, phase_table

SMALL = 0.01
"""Terms below this share of the peak are listed together."""


def ink() -> str:
    """Colour of words over charts, for the visitor's appearance."""
    return INK["dark" if st.context.theme.type == "dark" else "light"]


def chart(footprint: Footprint) -> None:
    """The phases as bars, and as a table."""
    st.subheader("Phases of a step", anchor="phases")
    drawn, listed = st.tabs(
        [":material/bar_chart: Chart", ":material/table: Table"],
        on_change=session.acted,
        key="phases-view",
    )
    with listed if listed.open else drawn:
        (_table if listed.open else _bars)(footprint)


def _table(footprint: Footprint) -> None:
    unit = session.unit()
    rows = phase_table(footprint, unit)
    sizes = [name for name in rows.columns if name.endswith(unit.name)]
    share = st.column_config.ProgressColumn(min_value=0, max_value=1.5, format="percent")
    st.dataframe(
        rows,
        hide_index=True,
        key="phase-table",
        alt="Peak memory of each phase",
        column_config={
            "Share of card": share,
            **numbers(["Seconds"], "%.3g"),
            **numbers(sizes, "%.2f"),
        },
    )


def _bars(footprint: Footprint) -> None:
    unit = session.unit()
    capacity = unit.value(footprint.budget_bytes)
    st.altair_chart(
        bars.phase_bars(
            bar_rows(footprint, unit), capacity=capacity, unit=unit.name, ink=ink()
        ),
        key="phase-chart",
        height=bars.height(len(footprint.phases)),
        alt=alt_text(footprint),
    )


def alt_text(footprint: Footprint) -> str:
    """The chart in words."""
    parts = [f"{phase_name(one)} {session.read(one.device_bytes)}" for one in footprint.phases]
    card = session.read(footprint.budget_bytes)
    return f"Peak memory of each phase against {card} of the card: {', '.join(parts)}."


def terms(footprint: Footprint) -> None:
    """The terms of one phase; each opens to its formula."""
    st.subheader("Every number, opened", anchor="terms")
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
    own = sorted((t for t in phase.terms if not t.host), key=lambda t: -int(t.bytes))
    host = [term for term in phase.terms if term.host and int(term.bytes)]
    small = [t for t in own if int(t.bytes) < SMALL * phase.device_bytes]
    levels = ("requested", "allocated", "reserved", "device")
    totals = [f"{level} {session.read(getattr(phase, f'{level}_bytes'))}" for level in levels]
    st.caption(f"At {phase.instant}: {', '.join(totals)}.")
    twins = Counter[tuple[str, str]]()
    for term in own[: len(own) - len(small)]:
        twins[term.role, term.name] += 1
        _term(term, phase, twins[term.role, term.name])
    _folded(small, "smaller terms", phase)
    _folded(host, "terms in host RAM", phase)


def _term(term: Term, phase: Phase, place: int) -> None:
    share = percent(int(term.bytes) / max(phase.device_bytes, 1))
    key = f"term:{phase.name}:{term.role}:{term.name}:{place}"
    with folded(f"{_title(term)} · :gray[{share}]", key) as opened:
        if opened:
            explain(term)


def _folded(found: list[Term], title: str, phase: Phase) -> None:
    if not found:
        return
    total = session.read(sum(int(term.bytes) for term in found))
    with folded(f"**{total}** · {len(found)} {title}", f"{title}:{phase.name}") as opened:
        for term in found if opened else ():
            st.markdown(_title(term))
            explain(term)


def _title(term: Term) -> str:
    return f"**{session.read(int(term.bytes))}** · {term.name} · {term.role}"


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
    st.caption(f"{bounds}Source: {term.source}.{left_out}")
