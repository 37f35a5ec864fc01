"""The sidebar of the Sampling page: presets and every field, each mirroring the page's values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from planner import catalog
from planner.sampling.derived import chunk_of, lists_of, probes_of, training_of, width_of
from planner.sampling.plan import SamplingPlan, choices
from planner.sampling.presets import DEFAULT, PRESETS
from planner.ui.elements import segments
from planner.ui.inputs.gpu import CARDS, card_name
from planner.ui.inputs.widgets import bounds, to_bytes
from planner.ui.sampling import state
from planner.ui.sampling.texts import LABELS, help_of, name_of
from planner.ui.state import typed
from planner.units import GIB

FIRST = ("prompts", "model", "embedding", "dtype", "index", "neighbours", "mode", "favour")
GROUPS = {
    "Hardware": ("host_ram", "disk", "cores", "device"),
    "Embedding": ("dimensions", "model_dtype", "prompt_tokens", "batch_size", "assembly"),
    "Search": ("lists", "probes", "training_prompts", "chunk_prompts"),
}
IVF_ONLY = ("lists", "probes", "training_prompts")
SIZES = ("host_ram", "disk")
DERIVED: dict[str, Callable[[SamplingPlan], int]] = {
    "dimensions": width_of,
    "lists": lists_of,
    "probes": probes_of,
    "training_prompts": training_of,
    "chunk_prompts": chunk_of,
}
STEPS = {"prompts": 1000, "prompt_tokens": 128}


def draw() -> None:
    """Draw the sidebar."""
    values = state.values()
    plan, problems = state.plan()
    blamed = {problem.field for problem in problems}
    with st.sidebar:
        _preset(plan)
        for field in FIRST:
            _field(field, values, plan)
        for title, fields in GROUPS.items():
            shown = [
                field
                for field in fields
                if field not in IVF_ONLY or values["index"] == "faiss-ivf" or field in blamed
            ]
            wrong = " · :red[to fix]" if blamed.intersection(shown) else ""
            with st.expander(f"{title}{wrong}", expanded=title == "Hardware" or bool(wrong)):
                for field in shown:
                    _field(field, values, plan)
        segments("Memory in", ["GiB", "GB"], "unit", default="GiB", help="GiB is 2³⁰ bytes.")
        typed.sign()


def _preset(plan: SamplingPlan | None) -> None:
    own = next((name for name, (_, one) in PRESETS.items() if one == plan), "")
    names = [*(("",) if not own else ()), *PRESETS]
    typed.mirror("sampling preset", own, _opened)
    st.selectbox(
        "Start from",
        names,
        index=names.index(own),
        key="sampling preset",
        format_func=lambda name: PRESETS[name][0] if name else "Custom",
        help=f"Presets never change once released. In a link: `{own or DEFAULT}`.",
    )


def _opened(name: str) -> None:
    if name:
        state.set_plan(PRESETS[name][1])


def _field(field: str, values: dict[str, Any], plan: SamplingPlan | None) -> None:
    value = values[field]
    if field in SIZES:
        _number(field, value / GIB, 0.0, 2**53 / GIB, 1.0, to_bytes)
    elif field in ("model", "device"):
        _select(field, value, _models() if field == "model" else _devices())
    elif choices(field):
        _select(field, value, choices(field))
    else:
        _number(field, value, *bounds(SamplingPlan.model_fields[field]), STEPS.get(field, 1))
        if field in DERIVED and not value and plan is not None:
            st.caption(f"0 means {int(DERIVED[field](plan)):,} here")


def _edited(field: str, convert: Callable[[Any], Any], value: Any) -> None:
    state.edit(field, convert(value))


def _common(field: str, shown: Any, convert: Callable[[Any], Any]) -> dict[str, Any]:
    key = f"sampling:{field}"
    typed.mirror(key, shown, partial(_edited, field, convert))
    return {"key": key, "help": help_of(field)}


def _number(
    field: str,
    value: float,
    low: Any,
    high: Any,
    step: Any,
    convert: Callable[[Any], Any] = int,
) -> None:
    st.number_input(
        LABELS[field],
        min_value=low,
        max_value=high,
        value=value,
        step=step,
        format="%d" if isinstance(value, int) else "%.1f",
        **_common(field, value, convert),
    )


def _select(field: str, value: str, options: tuple[str, ...]) -> None:
    shown = options if value in options else (value, *options)
    st.selectbox(
        LABELS[field],
        shown,
        index=shown.index(value),
        format_func=_shown,
        **_common(field, value, str),
    )


def _shown(value: str) -> str:
    """A choice as a person reads it, a card by its name and size."""
    return card_name(value) if value in CARDS else name_of(value)


@st.cache_data(max_entries=1)
def _models() -> tuple[str, ...]:
    known = sorted(
        (one.id for one in catalog.models() if one.architecture is not None), key=str.lower
    )
    return ("", *known)


@st.cache_data(max_entries=1)
def _devices() -> tuple[str, ...]:
    return ("cpu", *(one.key for one in catalog.gpus() if one.budget_bytes is not None))
