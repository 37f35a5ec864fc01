"""Every phase's peak against the card: a chart, the same as a table, and the terms."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from planner.charts import bars as charts
from planner.footprint import Footprint, Phase, Term
from planner.ui.display import Unit, percent, put_in
from planner.ui.folded import folded
from planner.ui.state import session
from planner.ui.tables import bar_rows, phase_name, phase_table

SMALL = 0.01
"""Terms below this share of the peak are listed together."""


def ink() -> str:
    """Colour of words over charts, for the visitor's appearance."""
    return charts.INK["dark" if st.context.theme.type == "dark" else "light"]


def chart(footprint: Footprint, unit: Unit) -> None:
    """The phases as bars, and as a table."""
    st.subheader("Phases of a step", anchor="phases")
    bars, table = st.tabs(
        [":material/bar_chart: Chart", ":material/table: Table"],
        on_change=session.acted,
        key="phases-view",
    )
    rows = phase_table(footprint, unit)
    if table.open:
        with table:
            st.dataframe(
                rows,
                hide_index=True,
                key="phase-table",
                alt="Peak memory of each phase",
                column_config={
                    "Share of card": st.column_config.ProgressColumn(
                        min_value=0, max_value=1.5, format="percent"
                    ),
                    "Seconds": st.column_config.NumberColumn(format="%.3g"),
                    **{
                        name: st.column_config.NumberColumn(format="%.2f")
                        for name in rows.columns
                        if name.endswith(unit.name)
                    },
                },
            )
        return
    with bars:
        st.altair_chart(
            charts.phase_bars(
                bar_rows(footprint, unit),
                capacity=unit.value(footprint.budget_bytes),
                unit=unit.name,
                ink=ink(),
            ),
            key="phase-chart",
            height=charts.height(len(footprint.phases)),
            alt=alt_text(footprint, unit),
        )


def alt_text(footprint: Footprint, unit: Unit) -> str:
    """The chart in words."""
    parts = [
        f"{phase_name(phase.name, phase.rank)} {unit.read(phase.device_bytes)}"
        for phase in footprint.phases
    ]
    return (
        f"Peak memory of each phase against {unit.read(footprint.budget_bytes)} of the card: "
        + ", ".join(parts)
        + "."
    )


def terms(footprint: Footprint, unit: Unit) -> None:
    """The terms of one phase; each opens to its formula."""
    st.subheader("Every number, opened", anchor="terms")
    names = [phase_name(phase.name, phase.rank) for phase in footprint.phases]
    worst = phase_name(footprint.worst.name, footprint.worst.rank)
    if st.session_state.get("phase") not in names or "phase by hand" not in st.session_state:
        st.session_state["phase"] = worst
    chosen = st.selectbox(
        "Phase",
        names,
        key="phase",
        on_change=_phase_chosen,
        format_func=lambda name: f"{name} (the worst)" if name == worst else name,
        help="What is alive on the GPU at the phase's worst moment. The terms add up to its peak.",
    )
    phase = footprint.phases[names.index(chosen)]
    _list(phase, unit)


def _phase_chosen() -> None:
    """From now on the page stays at the chosen phase instead of following the worst one."""
    st.session_state["phase by hand"] = True
    session.acted()


def _list(phase: Phase, unit: Unit) -> None:
    own = sorted((t for t in phase.terms if not t.host), key=lambda t: -int(t.bytes))
    host = [term for term in phase.terms if term.host and int(term.bytes)]
    large = [t for t in own if int(t.bytes) >= SMALL * phase.device_bytes]
    small = [t for t in own if int(t.bytes) < SMALL * phase.device_bytes]
    st.caption(
        f"At {phase.instant}: requested {unit.read(phase.requested_bytes)}, allocated "
        f"{unit.read(phase.allocated_bytes)}, reserved {unit.read(phase.reserved_bytes)}, "
        f"device {unit.read(phase.device_bytes)}."
    )
    twins = Counter[tuple[str, str]]()
    for term in large:
        twins[term.role, term.name] += 1
        _term(term, phase, unit, twins[term.role, term.name])
    _folded(small, "smaller terms", phase, unit)
    _folded(host, "terms in host RAM", phase, unit)


def _term(term: Term, phase: Phase, unit: Unit, place: int) -> None:
    share = percent(int(term.bytes) / max(phase.device_bytes, 1))
    title = f"**{unit.read(int(term.bytes))}** · {term.name} · {term.role} · :gray[{share}]"
    with folded(title, f"term:{phase.name}:{term.role}:{term.name}:{place}") as opened:
        if opened:
            explain(term)


def _folded(found: list[Term], title: str, phase: Phase, unit: Unit) -> None:
    if not found:
        return
    total = unit.read(sum(int(term.bytes) for term in found))
    with folded(f"**{total}** · {len(found)} {title}", f"{title}:{phase.name}") as opened:
        for term in found if opened else ():
            st.markdown(f"**{unit.read(int(term.bytes))}** · {term.name} · {term.role}")
            explain(term)


def explain(term: Term) -> None:
    """Formula, the same with the numbers put in, source, and what is left out."""
    st.code(
        f"{term.formula}\n= {put_in(term.formula, term.inputs)}\n= {int(term.bytes):,} bytes",
        language=None,
        wrap_lines=True,
    )
    notes = [f"Source: {term.source}."]
    if term.ignores:
        notes.append(f"Left out: {term.ignores}.")
    st.caption(" ".join(notes))
