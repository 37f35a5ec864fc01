"""What the Scaling page shows: the axis, its ends or members, and how figures are read."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from planner.plan import Plan
from planner.ui.elements import segments
from planner.ui.scaling import own_peak
from planner.ui.scaling.axes import AXES, CARD, MODEL, TITLES, cards, known_cards, models, relatives

VALUE, TO_PLAN, TO_B = "Value", "Ratio to this plan", "Ratio B ÷ A"


@dataclass(frozen=True, slots=True)
class Choice:
    """An axis of numbers from ``low`` to ``high``, or of the ``members`` of a list."""

    field: str
    low: int = 0
    high: int = 0
    members: tuple[str, ...] = ()
    reading: str = VALUE
    own: bool = False
    """Memory is the trainer's own peak."""


def choose(plan: Plan, other: Plan | None) -> Choice:
    """The controls above the figures."""
    field = segments(
        "Vary",
        list(TITLES),
        "axis",
        default="response_tokens",
        format_func=TITLES.__getitem__,
        help="The setting on the axis; everything else stays as in the plan.",
    )
    if field == CARD:
        return Choice(field, members=_cards(plan))
    members = _models(plan) if field == MODEL else ()
    low, high = (0, 0) if field == MODEL else _range(field, plan)
    readings = [VALUE, TO_PLAN, *([TO_B] if other else [])]
    if st.session_state.get("reading as") not in readings:
        st.session_state["reading as"] = VALUE
    place = st.container(horizontal=True, vertical_alignment="bottom")
    reading = segments(
        "Show as",
        readings,
        "reading as",
        place,
        help="Ratio to this plan: each value divided by this plan's value. B ÷ A: plan B's value "
        "divided by plan A's value at the same point of the axis.",
    )
    return Choice(field, low, high, members, reading, own_peak.switch(place))


def _range(field: str, plan: Plan) -> tuple[int, int]:
    axis = AXES[field]
    ticks = axis.ticks()
    top = max(getattr(plan, field) * 8, axis.low * 16)
    low, high = st.select_slider(
        f"From and to, {axis.unit}",
        ticks,
        value=(ticks[0], max(tick for tick in ticks if tick <= top)),
        key=f"range:{field}",
        format_func=lambda tick: f"{tick:,}",
        help="Every valid plan in this range is estimated; more points are drawn where a curve "
        "bends.",
    )
    return int(low), int(high)


def _models(plan: Plan) -> tuple[str, ...]:
    known = models()
    chosen = st.multiselect(
        "Models",
        list(known),
        default=relatives(plan.model),
        key="models on axis",
        format_func=lambda id: f"{id} · {known[id] / 1e9:.3g} B",
        help="Only models with a formula for their activations are offered.",
    )
    return tuple(sorted(chosen, key=known.__getitem__))


def _cards(plan: Plan) -> tuple[str, ...]:
    known = known_cards()
    return tuple(
        st.multiselect(
            "GPUs",
            list(known),
            default=cards(plan),
            key="cards on axis",
            format_func=known.__getitem__,
            help="By default the plan's own GPU and all GPUs with a listed price. GPUs whose "
            "usable memory nobody has reported are not offered.",
        )
    )
