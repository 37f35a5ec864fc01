"""One input per field, chosen by the field's type; each mirrors the draft."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st
from pydantic.fields import FieldInfo

from planner.plan import Plan
from planner.plan.fieldtext import KINDS
from planner.plan.plan import ROWS
from planner.ui.state import session, typed
from planner.units import GIB
from planner.wording import choices
from planner.wording.fields import help_text, label

LEAST = 0.01
"""What a number that is not whole is shown to."""


def field(name: str, values: Any) -> None:
    """Draw the input of a field with its current value."""
    value = values[name]
    if "GiB" in label(name):
        _gib(name, value)
    elif name.endswith("_version"):
        select(name, value, choices.versions(name, values["framework"]))
    elif choices.options(name):
        select(name, value, choices.options(name))
    elif KINDS[name] in (bool, str):
        draw = st.toggle if KINDS[name] is bool else st.text_input
        draw(label(name), value, **_common(name, value))
    else:
        _number(name, value)


def bounds(info: FieldInfo) -> tuple[Any, Any]:
    """Smallest and largest value that a field allows; None where it says nothing.

    Inside a bound that is itself not allowed, by the least that an input shows.
    """
    low = high = None
    for rule in info.metadata:
        low = rule.gt + LEAST if hasattr(rule, "gt") else getattr(rule, "ge", low)
        high = rule.lt - LEAST if hasattr(rule, "lt") else getattr(rule, "le", high)
    return low, high


def _common(
    name: str,
    value: Any,
    convert: Callable[[Any], Any] | None = None,
    take: Callable[[Any], None] | None = None,
) -> dict[str, Any]:
    """What every input of a field is given.

    ``convert`` makes the plan's value of what is typed; ``take`` is what to do with that where it
    is more than setting the field. Where an empty input means something, it says what.
    """
    key, empty = f"field:{name}", ROWS[name].empty
    typed.mirror(key, value, take or partial(_set, name, convert), clears=bool(empty))
    return {"key": key, "help": help_text(name), **({"placeholder": empty} if empty else {})}


def _set(name: str, convert: Callable[[Any], Any] | None, value: Any) -> None:
    given = KINDS[name](0) if value is None else value
    session.edit({name: convert(given) if convert else given})


def _figure(name: str, value: float, convert: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """What an input of a number is given: one that may be empty is so by default, and at 0."""
    if not ROWS[name].empty:
        return {"value": value, **_common(name, value, convert)}
    return {"value": None, **_common(name, value or None, convert)}


def select(
    name: str,
    value: str,
    options: tuple[str, ...],
    read: Callable[[str], str] | None = None,
    take: Callable[[Any], None] | None = None,
    **more: Any,
) -> None:
    """A list of choices; a value that is none of them stands in front."""
    shown = options if value in options else (value, *options)
    st.selectbox(
        label(name),
        shown,
        index=shown.index(value),
        format_func=read or partial(choices.name, name),
        **_common(name, value, take=take),
        **more,
    )


def _number(name: str, value: float) -> None:
    """A number; a whole one has no largest value here.

    What is beyond an input's own limit never leaves the browser, and the page would go on with the
    verdict of another plan; so the plan refuses it, in words.
    """
    low, high = bounds(Plan.model_fields[name])
    whole = KINDS[name] is int
    low, high = min(low, value), max(high, value)
    st.number_input(
        label(name),
        min_value=low if whole else float(low),
        max_value=None if whole else float(high),
        step=ROWS[name].step or (1 if whole else 0.1),
        format="%d" if whole else "%.2f",
        **_figure(name, value),
    )


def _gib(name: str, value_bytes: int) -> None:
    st.number_input(
        label(name),
        min_value=0.0,
        max_value=2**53 / GIB,
        step=1.0,
        format="%.2f",
        **_figure(name, value_bytes / GIB, to_bytes),
    )


def to_bytes(size_gib: float) -> int:
    """GiB as typed, in whole bytes."""
    return round(size_gib * GIB)
