"""One input per field, chosen by the field's type; each mirrors the draft."""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.plan import Plan
from planner.plan.fieldtext import KINDS
from planner.ui.inputs import choices
from planner.ui.inputs.fields import help_text, label
from planner.ui.state import session
from planner.units import GIB

BYTES_FIELDS = ("host_ram_per_node", "gpu_bytes")
"""Kept in bytes, typed in GiB."""

STEPS = {
    "prompt_tokens": 128,
    "response_tokens": 512,
    "validation_response_tokens": 512,
    "max_num_batched_tokens": 1024,
    "max_tokens_per_micro_batch": 1024,
    "max_num_seqs": 32,
    "gpu_memory_utilization": 0.05,
    "price_per_gpu_hour": 0.1,
    "steps": 100,
}
"""What the plus and minus buttons add."""


def field(name: str, values: Any, disabled_reason: str = "") -> None:
    """Draw the input of a field with its current value."""
    if name in BYTES_FIELDS:
        _gib(name, values[name])
    elif name.endswith("_version"):
        _select(name, values[name], choices.versions(name, values["framework"]))
    elif choices.options(name):
        _select(name, values[name], choices.options(name))
    elif KINDS[name] is bool:
        mirror(session.widget_key(name), values[name])
        st.toggle(label(name), values[name], key=session.widget_key(name), **_common(name))
    elif KINDS[name] is str:
        mirror(session.widget_key(name), values[name])
        st.text_input(label(name), values[name], key=session.widget_key(name), **_common(name))
    else:
        _number(name, values[name])


def bounds(name: str) -> tuple[Any, Any]:
    """Smallest and largest value the plan's field allows; None where it says nothing."""
    low = high = None
    for rule in Plan.model_fields[name].metadata:
        low = getattr(rule, "ge", low)
        high = getattr(rule, "le", high)
    return low, high


def _common(name: str) -> dict[str, Any]:
    return {"help": help_text(name), "on_change": session.on_edit, "args": (name,)}


def mirror(key: str, value: Any) -> None:
    """Give a widget that is on the page already the draft's value.

    A new one gets it as its default instead: set through the state alone, it would show
    its minimum for a moment first.
    """
    if key in st.session_state and st.session_state[key] != value:
        st.session_state[key] = value


def _select(name: str, value: str, options: tuple[str, ...]) -> None:
    shown = options if value in options else (value, *options)
    mirror(session.widget_key(name), value)
    st.selectbox(
        label(name),
        shown,
        index=shown.index(value),
        key=session.widget_key(name),
        format_func=lambda option: choices.name(name, option),
        **_common(name),
    )


def _number(name: str, value: float) -> None:
    low, high = bounds(name)
    whole = KINDS[name] is int
    if name == "gpu_memory_utilization":
        low, high = min(0.01, value), max(0.99, value)
    mirror(session.widget_key(name), value)
    st.number_input(
        label(name),
        min_value=low if whole else float(low),
        max_value=high if whole else float(high),
        value=value,
        step=STEPS.get(name, 1 if whole else 0.1),
        format="%d" if whole else "%.2f",
        key=session.widget_key(name),
        **_common(name),
    )


def _gib(name: str, value_bytes: int) -> None:
    mirror(session.widget_key(name), value_bytes / GIB)
    st.number_input(
        label(name) if name != "gpu_bytes" else "Usable memory of the card (GiB)",
        min_value=0.0,
        max_value=2**53 / GIB,
        value=value_bytes / GIB,
        step=1.0,
        format="%.2f",
        key=session.widget_key(name),
        help=help_text(name),
        on_change=session.on_edit,
        args=(name, to_bytes),
    )


def to_bytes(size_gib: float) -> int:
    """GiB as typed, in whole bytes."""
    return round(size_gib * GIB)
