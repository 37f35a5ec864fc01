"""Ablation: what each optimization of the plan saves by itself, in memory and in time."""

from __future__ import annotations

from functools import lru_cache

import streamlit as st

from planner.advice.ablation import Ablation, Measure, ablation, switches
from planner.charts import ablation as charts
from planner.charts.seconds import unit_of
from planner.footprint import Footprint
from planner.plan import Plan
from planner.ui import compute
from planner.ui.elements import ink, segments
from planner.ui.plan.seconds import NO_TIME
from planner.ui.state import session
from planner.units import read_seconds
from planner.wording.fields import labelled

CARD, TRAINER = "GPU peak", "Training only"
MEASURES: dict[str, Measure] = {CARD: "device_bytes", TRAINER: "trainer_bytes"}


def show(footprint: Footprint) -> None:
    """The chosen optimizations, each changed alone, as bars of bytes and of seconds."""
    plan = footprint.plan
    known = {one.name: one for one in switches(plan)}
    key = "ablation of"
    own = [name for name, one in known.items() if one.own] or list(known)
    chosen = st.session_state.get(key, own)
    st.session_state[key] = [name for name in chosen if name in known]
    names = st.multiselect(
        "Optimizations",
        list(known),
        key=key,
        help="Each optimization is changed alone: it is removed where the plan has it, and added "
        "where the plan lacks it. Savings do not add up, because each depends on the other "
        "optimizations.",
    )
    measure = segments(
        "Memory of",
        (CARD, TRAINER),
        "ablation measure",
        default=TRAINER if footprint.engine_bytes else CARD,
        help="vLLM's reservation is a setting; “Training only” leaves that reservation out.",
    )
    if not names:
        st.caption("Choose at least one.")
        return
    with st.spinner("Estimating each change…"):
        found = _found(plan, tuple(names), MEASURES[measure], compute.rests_on(plan))
    _draw(found, footprint, measure)


@lru_cache(maxsize=32)
def _found(plan: Plan, names: tuple[str, ...], measure: Measure, rests_on: object) -> Ablation:
    chosen = [one for one in switches(plan) if one.name in names]
    judge = compute.judge(plan)
    return ablation(plan, chosen, judge, measure=measure, progress=compute.give_way)


def _draw(found: Ablation, footprint: Footprint, measure: str) -> None:
    for name, why in found.left_out:
        st.caption(f"{name} cannot be changed alone: {labelled(why)}")
    names, unit = [name for name, _ in found.steps], session.unit()
    if len(names) < 2:
        return
    sizes = [getattr(after, MEASURES[measure]) for _, after in found.steps]
    read, changes = [*map(session.read, sizes)], [size - sizes[0] for size in sizes]
    said = [f"{_sign(one)}{session.read(abs(one))}" for one in changes]
    memory = charts.bars(names, [*map(unit.value, sizes)], read, said)
    capacity = footprint.budget_bytes if measure == CARD else None
    dashed = "" if capacity is None else f"; dashed: the GPU, {session.read(capacity)}"
    left, right = st.columns(2)
    left.altair_chart(
        charts.ablation(
            memory,
            title=f"{unit.name}; line: the plan, {read[0]}{dashed}",
            ink=ink(),
            capacity=None if capacity is None else unit.value(capacity),
        ),
        key="ablation-memory",
        height=charts.height(len(memory)),
        alt=f"{measure}, {read[0]} in the plan: {_alt(memory)}",
    )
    times = [after.step_seconds for _, after in found.steps]
    known = [one for one in times if one is not None]
    if len(known) < len(names):
        right.caption(NO_TIME)
        return
    size, name = unit_of(max(known))
    took = [*map(read_seconds, known)]
    said = [f"{_sign(one - known[0])}{read_seconds(abs(one - known[0]))}" for one in known]
    seconds = charts.bars(names, [one / size for one in known], took, said)
    right.altair_chart(
        charts.ablation(seconds, title=f"step time, {name}; line: the plan, {took[0]}", ink=ink()),
        key="ablation-seconds",
        height=charts.height(len(seconds)),
        alt=f"Step time, {took[0]} in the plan: {_alt(seconds)}",
    )


def _sign(change: float) -> str:
    return "+" if change > 0 else "−"


def _alt(rows: object) -> str:
    return "; ".join(f"{one.name} {one.text}" for one in rows.itertuples())  # type: ignore[attr-defined]
