"""What if: each optimization's own part of memory and time, from all of them off to all on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import streamlit as st

from planner.advice.outcome import Judge
from planner.advice.waterfall import Measure, Switch, Waterfall, switches, waterfall
from planner.charts import waterfall as charts
from planner.footprint import Footprint
from planner.plan import Plan
from planner.speeds import Speeds
from planner.ui import compute
from planner.ui.elements import ink, row, segments
from planner.ui.state import session
from planner.units import read_seconds
from planner.wording.fields import labelled

OWN, LARGEST = "In this order", "Largest first"
CARD, TRAINER = "Peak of the card", "Trainer's own peak"
MEASURES: dict[str, Measure] = {CARD: "device", TRAINER: "trainer"}


def show(footprint: Footprint) -> None:
    """The chosen optimizations in their order, as bars of bytes and of seconds."""
    plan = footprint.plan
    known = {one.name: one for one in switches(plan)}
    key = "what-if switches"
    if not set(st.session_state.get(key, ())) <= set(known):
        st.session_state[key] = [name for name in st.session_state[key] if name in known]
    st.session_state.setdefault(key, list(known))
    names = st.multiselect(
        "Optimizations, in the order in which they are turned on",
        list(known),
        key=key,
        help="Those that the plan has on stand first. What one saves depends on what is on before "
        "it: take one out and put it in again to move it to the end.",
    )
    with row("what-if-choices"):
        order = segments("Order", (OWN, LARGEST), "what-if order", default=OWN)
        measure = segments(
            "Memory of",
            (CARD, TRAINER),
            "what-if measure",
            default=TRAINER if footprint.engine_bytes else CARD,
            help="An engine's pool is a choice, not a need; the trainer's own peak leaves it out.",
        )
    if not names:
        st.caption("Choose at least one.")
        return
    with st.spinner("Estimating each in its place…"):
        found = _found(
            plan,
            tuple(names),
            order == LARGEST,
            MEASURES[measure],
            session.speeds(),
            _Made([known[name] for name in names], compute.judge()),
        )
    _draw(found, footprint, measure)


class _Made:
    """What a waterfall is made by; the plan and its order tell one from another, this does not."""

    def __init__(self, chosen: Sequence[Switch], judge: Judge) -> None:
        self.chosen, self.judge = chosen, judge

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Made)


@lru_cache(maxsize=32)
def _found(
    plan: Plan,
    names: tuple[str, ...],
    largest: bool,
    measure: Measure,
    speeds: Speeds | None,
    made: _Made,
) -> Waterfall:
    return waterfall(
        plan,
        made.chosen,
        made.judge,
        largest_first=largest,
        measure=measure,
        progress=compute.give_way,
    )


def _draw(found: Waterfall, footprint: Footprint, measure: str) -> None:
    for name, why in found.left_out:
        st.caption(f"{name} is left out: {labelled(why)}")
    if not found.steps:
        return
    unit, names = session.unit(), [step.name for step in found.steps]
    sizes = [step.bytes(MEASURES[measure]) for step in found.steps]
    memory = charts.bars(
        names, [unit.value(size) for size in sizes], [*map(session.read, sizes)], _signed(sizes)
    )
    capacity = footprint.budget_bytes if measure == CARD else None
    left, right = st.columns(2)
    left.altair_chart(
        charts.waterfall(
            memory,
            title=unit.name,
            ink=ink(),
            capacity=None if capacity is None else unit.value(capacity),
            label="" if capacity is None else f"the card, {session.read(capacity)}",
        ),
        key="what-if-memory",
        height=charts.height(len(names)),
        alt=f"{measure}: " + _alt(memory),
    )
    seconds = [step.seconds for step in found.steps if step.seconds is not None]
    if len(seconds) < len(names):
        right.caption("Nobody has published this card's peaks, so no time is known.")
        return
    changes = [now - was for was, now in zip([0.0, *seconds], seconds, strict=False)]
    times = charts.bars(
        names,
        seconds,
        [*map(read_seconds, seconds)],
        [f"{'+' if one > 0 else '−'}{read_seconds(abs(one))}" for one in changes],
    )
    right.altair_chart(
        charts.waterfall(times, title="seconds of a step", ink=ink()),
        key="what-if-seconds",
        height=charts.height(len(names)),
        alt=f"Seconds of a step: {_alt(times)}",
    )


def _signed(sizes: Sequence[int]) -> list[str]:
    changes = [now - was for was, now in zip([0, *sizes], sizes, strict=False)]
    return [f"{'+' if one > 0 else '−'}{session.read(abs(one))}" for one in changes]


def _alt(rows: object) -> str:
    return "; ".join(f"{one.name} {one.text}, then {one.read}" for one in rows.itertuples())  # type: ignore[attr-defined]
