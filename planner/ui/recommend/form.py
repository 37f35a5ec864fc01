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
from planner.search.wish import (
    MOST_GPUS,
    PLACEMENT,
    SEARCHED,
    chosen_from,
    from_text,
    shopping,
)
from planner.ui.elements import said
from planner.ui.recommend import asked
from planner.ui.state import session
from planner.wording import choices
from planner.wording.fields import short_label

ERROR, SEEDED = "wish error", "wish seeded"
LORA, SEPARATE, LENGTH = "lora", "separate", "length"
ALLOWED = {
    LORA: "LoRA instead of full fine-tuning",
    SEPARATE: "Dedicated rollout GPUs",
    LENGTH: "Other response lengths",
}
LIMITS = {
    "max_gpus": "Max GPUs",
    "budget_usd": "Budget, $",
    "deadline_hours": "Deadline, hours",
    "cards": "Allowed GPUs",
}
"""Labels of a wish's own fields."""
FILTERS = {
    "vendor": (
        "Vendor",
        "Any vendor",
        "Only GPUs of this vendor; the filter applies to your GPU, too.",
    ),
    "provider": (
        "Provider",
        "Any provider",
        "Costs use this provider's cheapest listed price; GPUs that it does not list are left out.",
    ),
    "offer": (
        "Price",
        "List price",
        "List price: the middle of the catalog's range. On demand or spot: the cheapest price of "
        "that kind that a provider lists; GPUs without such a price are left out.",
    ),
}
"""Label of each filter, what it is called where it filters nothing, and its help."""


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
            help="How plans that fit are ranked. The first goal and the goals about lengths and "
            "micro-batches keep your GPU unless you allow others.",
        )
        framework.selectbox(
            "Launch with",
            _frameworks(plan),
            key="wish:framework",
            format_func=partial(choices.name, "framework"),
            help="The framework whose launch script the plans get. If the plan's own framework has "
            "no launch script for this method, another framework is preselected; settings that you "
            "left open follow that framework.",
        )
        most.number_input(
            LIMITS["max_gpus"],
            0,
            MOST_GPUS,
            None,
            key="wish:max_gpus",
            placeholder=f"{plan.gpus:,}, as now",
            help="Plans on fewer GPUs are searched too. Empty: the plans use as many GPUs as now, "
            f"{plan.gpus:,}.",
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
                help="For the whole run.",
            )
        kept, cards = st.columns([3, 2])
        kept.multiselect(
            "Keep fixed",
            _options(plan),
            key="wish:keep",
            format_func=short_label,
            placeholder="Nothing",
            help="The search may change micro-batches, sharding, offload, gradient checkpointing, "
            "the loss, the optimizer and vLLM's settings. Settings you changed from the preset are "
            "listed here already. Model, method, data and lengths never change.",
        )
        cards.multiselect(
            LIMITS["cards"],
            list(_cards()),
            key="wish:cards",
            format_func=_cards().__getitem__,
            placeholder="Every GPU with a listed price",
            help=f"Your own GPU, {facts_of(plan).gpu.name}, is always allowed. Choose only that "
            "GPU to stay on it.",
        )
        for place, (name, (label, every, about)) in zip(
            st.columns(3), FILTERS.items(), strict=True
        ):
            words = {"": every, **chosen_from()[name]}
            place.selectbox(
                label,
                list(words),
                key=f"wish:{name}",
                format_func=words.__getitem__,
                help=about,
            )
        allowed, button = st.columns([4, 1], vertical_alignment="bottom")
        allowed.pills(
            "Also consider",
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
    given = {name: st.session_state[f"wish:{name}"] for name in ("goal", *LIMITS, *FILTERS)}
    allowed = st.session_state["wish:allowed"]
    framework = st.session_state["wish:framework"]
    return Wish(
        goal=given["goal"],
        free=(
            *(USUAL if given["cards"] else shopping(given["goal"])),
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
        **{name: given[name] for name in FILTERS},
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
    usual = wish or Wish(goal="cheapest", free=shopping("cheapest"), vendor=_vendor(plan))
    keep = [name for name in _options(plan) if name not in usual.freed] if wish else changed
    gpus_free = "gpus" in usual.free
    # An old link that names no cards meant the plan's own.
    own = [] if "gpu" in usual.free or not GOALS[usual.goal].shops else [plan.gpu]
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
        "cards": [card for card in (usual.cards or own) if card in _cards()],
        **{name: getattr(usual, name) for name in FILTERS},
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


def _vendor(plan: Plan) -> str:
    """The plan's own card's; empty where a typed-in card has none."""
    vendor = facts_of(plan).gpu.vendor.lower()
    return vendor if vendor in chosen_from()["vendor"] else ""


def _cards() -> dict[str, str]:
    return {card.key: card.name for card in gpus() if card.budget_bytes}
