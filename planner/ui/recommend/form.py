"""What the page asks: a goal, what may change, what may be spent; and the wish that comes of it.

Session keys, set here only: the form's widgets (``wish:…``), ``wish seeded``, what they were last
filled from, and ``wish error``, what could not be asked.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from planner.catalog import gpus
from planner.launch.export import scripted
from planner.plan import FIELDS, Plan
from planner.plan.facts import facts_of
from planner.plan.relevance import without_effect
from planner.plan.trainers import exporting
from planner.search import GOALS, USUAL, Wish
from planner.search.wish import MOST_GPUS, PLACEMENT, SEARCHED, from_text
from planner.ui.elements import said
from planner.ui.recommend import asked
from planner.ui.state import session
from planner.wording import choices
from planner.wording.fields import short_label

ERROR, SEEDED = "wish error", "wish seeded"
LORA, SEPARATE, LENGTH = "lora", "separate", "length"
ALLOWED = {
    LORA: "LoRA in place of all weights",
    SEPARATE: "An engine on GPUs of its own",
    LENGTH: "Other response lengths",
}
LIMITS = {
    "max_gpus": "Most GPUs",
    "budget_usd": "Budget of the run, $",
    "deadline_hours": "Deadline of the run, hours",
    "cards": "Cards that may be taken",
}
"""Labels of a wish's own fields."""


def form(plan: Plan, running: bool) -> None:
    """The inputs and the button; nothing runs again before it is pressed."""
    _seed(plan)
    with st.form("wish-form", enter_to_submit=True):
        goal, framework, most, budget, deadline = st.columns(
            [5, 3, 3, 3, 4], vertical_alignment="bottom"
        )
        goal.selectbox(
            "Goal",
            list(GOALS),
            key="wish:goal",
            format_func=lambda name: GOALS[name].label,
            help="What makes one plan that fits better than another.",
        )
        framework.selectbox(
            "Launch with",
            _frameworks(plan),
            key="wish:framework",
            format_func=partial(choices.name, "framework"),
            help="Whose launch script the plans are for. Where the plan's own framework has none "
            "for its method, one that has is set here; what you did not set follows it.",
        )
        most.number_input(
            LIMITS["max_gpus"],
            0,
            MOST_GPUS,
            None,
            key="wish:max_gpus",
            placeholder=f"{plan.gpus:,}, as now",
            help=f"Empty: as many as the plan has, {plan.gpus:,}.",
        )
        for place, name in ((budget, "budget_usd"), (deadline, "deadline_hours")):
            place.number_input(
                LIMITS[name],
                0.0,
                999_999_999.0,
                None,
                key=f"wish:{name}",
                format="%.6g",
                placeholder="no limit",
                help="Of the whole run; empty is no limit.",
            )
        kept, cards = st.columns([3, 2])
        kept.multiselect(
            "Stay as they are",
            _options(plan),
            key="wish:keep",
            format_func=short_label,
            placeholder="Nothing of the layout",
            help="The search may change how the run is laid out: micro-batches, sharding, "
            "offloading, checkpointing, the loss, the optimizer, the engine. What you changed "
            "against the preset stands here already. Model, method, data and lengths always stay.",
        )
        cards.multiselect(
            LIMITS["cards"],
            list(_cards()),
            key="wish:cards",
            format_func=_cards().__getitem__,
            placeholder=f"Only {facts_of(plan).gpu.name}",
            help="Beside the plan's own.",
        )
        allowed, button = st.columns([4, 1], vertical_alignment="bottom")
        allowed.pills(
            "May be used as well",
            list(ALLOWED),
            key="wish:allowed",
            selection_mode="multi",
            wrap=True,
            format_func=ALLOWED.__getitem__,
        )
        button.form_submit_button(
            "Find plans",
            icon=":material/search:",
            type="primary",
            key="wish-ask",
            width="stretch",
            disabled=running,
            on_click=_ask,
            args=(plan,),
        )
    if ERROR in st.session_state:
        st.warning(st.session_state[ERROR], icon=":material/info:")


def _ask(plan: Plan) -> None:
    st.session_state.pop(ERROR, None)
    try:
        wish = _wish(plan)
    except ValueError as error:
        name, _, rest = str(error).partition(": ")
        st.session_state[ERROR] = said(f"{LIMITS.get(name, name)}: {rest}")
        return
    asked.ask(plan, wish)


def _wish(plan: Plan) -> Wish:
    """The wish of what stands in the inputs.

    Raises:
        ValueError: naming what cannot be asked.
    """
    given = {name: st.session_state[f"wish:{name}"] for name in ("goal", *LIMITS)}
    allowed = st.session_state["wish:allowed"]
    framework = st.session_state["wish:framework"]
    return Wish(
        goal=given["goal"],
        free=(
            *USUAL,
            *(PLACEMENT if SEPARATE in allowed else ()),
            *(("response_tokens",) if LENGTH in allowed else ()),
        ),
        keep=tuple(name for name in FIELDS if name in st.session_state["wish:keep"]),
        max_gpus=int(given["max_gpus"] or 0),
        cards=tuple(given["cards"]),
        budget_usd=float(given["budget_usd"] or 0),
        deadline_hours=float(given["deadline_hours"] or 0),
        lora_allowed=LORA in allowed,
        framework="" if framework == plan.framework else framework,
    )


def _seed(plan: Plan) -> None:
    """The inputs say what was asked last, by a press or by the link; else what is usual."""
    text, options = session.wish(), _options(plan)
    changed = [name for name in options if name in session.draft().changed()]
    seeded, state = (text, changed, plan.framework, plan.method), st.session_state
    last = state.get(SEEDED, seeded)
    fresh = "wish:goal" not in state or last[0] != text
    if fresh:
        values = _inputs(from_text(text) if text else None, plan, changed)
        for name, value in values.items():
            state[f"wish:{name}"] = value
    elif not text and last[:2] != seeded[:2]:
        state["wish:keep"] = changed
    elif not set(state["wish:keep"]) <= set(options):
        state["wish:keep"] = [name for name in state["wish:keep"] if name in options]
    followed = fresh or last[2:] == seeded[2:]
    if not followed or state["wish:framework"] not in _frameworks(plan):
        state["wish:framework"] = scripted(plan, session.draft().chosen)
    state[SEEDED] = seeded


def _inputs(wish: Wish | None, plan: Plan, changed: list[str]) -> dict[str, Any]:
    """Each input's value for a wish; without one, what somebody changed of the preset stays."""
    usual = wish or Wish()
    keep = [name for name in _options(plan) if name not in usual.freed] if wish else changed
    gpus_free, any_card = "gpus" in usual.free, "gpu" in usual.free
    priced = [card.key for card in gpus() if card.budget_bytes and card.price]
    allowed = {
        LORA: usual.lora_allowed,
        SEPARATE: set(PLACEMENT) <= usual.freed,
        LENGTH: "response_tokens" in usual.free,
    }
    return {
        "goal": usual.goal,
        "framework": wish.framework or plan.framework
        if wish
        else scripted(plan, session.draft().chosen),
        "max_gpus": usual.max_gpus or (plan.gpus if gpus_free else None),
        "budget_usd": usual.budget_usd or None,
        "deadline_hours": usual.deadline_hours or None,
        "cards": [card for card in usual.cards if card in _cards()] or (priced if any_card else []),
        "keep": keep,
        "allowed": [name for name, is_so in allowed.items() if is_so],
    }


def _frameworks(plan: Plan) -> list[str]:
    """Those with a script for the plan's method, and its own."""
    return list(dict.fromkeys((plan.framework, *exporting(plan.method))))


def _options(plan: Plan) -> list[str]:
    """Fields of the layout that do something in this plan."""
    idle = without_effect(plan)
    return [name for name in SEARCHED if name in USUAL and name not in idle]


def _cards() -> dict[str, str]:
    return {card.key: card.name for card in gpus() if card.budget_bytes}
