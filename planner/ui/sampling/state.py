"""What the Sampling page remembers: its inputs' values, kept equal to its own address.

Session keys: ``sampling values``, every field's value, possible together or not; ``sampling
reading``, what was wrong with the link that was opened. The address is the frame's
(:mod:`planner.ui.state.address`), which knows what this session wrote there itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import streamlit as st

from planner.problem import Problem
from planner.sampling.link import SamplingReading, from_query, to_query
from planner.sampling.plan import FIELDS, SamplingPlan, try_sampling_plan
from planner.sampling.presets import DEFAULT, PRESETS
from planner.ui.state import address

PATH = "sampling"
"""Last part of the page's address."""
VALUES, READING = "sampling values", "sampling reading"


def values() -> dict[str, Any]:
    """Every field's value."""
    if VALUES not in st.session_state:
        st.session_state[VALUES] = PRESETS[DEFAULT][1].model_dump()
    return cast(dict[str, Any], st.session_state[VALUES])


def plan() -> tuple[SamplingPlan | None, tuple[Problem, ...]]:
    """The plan that the inputs make, or what is wrong with them."""
    return try_sampling_plan(values())


def set_plan(new: SamplingPlan) -> None:
    """Continue with another plan."""
    st.session_state[VALUES] = new.model_dump()
    st.session_state.pop(READING, None)


def edit(field: str, value: Any) -> None:
    """A person typed a value."""
    st.session_state[VALUES] = {**values(), field: value}


def read() -> None:
    """Take the values from the address if somebody else than this session changed it."""
    given = address.foreign(first=VALUES not in st.session_state)
    if not given:
        return
    reading = from_query(given)
    if reading.plan is not None:
        st.session_state[VALUES] = reading.plan.model_dump()
    st.session_state[READING] = reading if reading.problems else None


def write() -> None:
    """Put the values into the address."""
    address.put(query())


def query() -> dict[str, str]:
    """The complete query of what is on the page, possible or not."""
    found, _ = plan()
    if found is not None:
        return to_query(found)
    return {"v": "1", **{field: str(values()[field]) for field in FIELDS}}


def reading() -> SamplingReading | None:
    """What the opened link said, while it is worth showing."""
    return cast("SamplingReading | None", st.session_state.get(READING))


def dismiss() -> None:
    """The person has read what was wrong with the link."""
    st.session_state.pop(READING, None)


def link(of: Mapping[str, str]) -> str:
    """A sampling query under the page's address."""
    front, _, text = address.link(of).rpartition("/?")
    return f"{front}/{PATH}?{text}"
