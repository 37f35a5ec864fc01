"""The one sidebar of all pages: model, preset, a search, then the rest, each with folded groups.

A field that changes nothing in the present plan is not shown, unless it is what makes
the plan impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

import streamlit as st

from planner.plan.batch import batch_words
from planner.plan.frameworks import framework_named
from planner.plan.relevance import without_effect
from planner.ui.elements import folded, segments
from planner.ui.inputs import finder, lengths, widgets
from planner.ui.inputs.gpu import gpu_input
from planner.ui.inputs.groups import SECTIONS, Group, Section
from planner.ui.inputs.method import method_input
from planner.ui.inputs.model import model_input
from planner.ui.inputs.preset import preset_input
from planner.ui.state import session, typed
from planner.ui.state.draft import Draft
from planner.wording.display import plain

OWN: Mapping[str, Callable[[Draft], None]] = {
    "method": method_input,
    "gpu": gpu_input,
}
"""Rows that draw themselves, by their first field."""


def draw() -> None:
    """Draw the sidebar of the current draft."""
    draft = session.draft()
    blamed = {problem.field for problem in draft.problems}
    reasons = without_effect(_values(draft))
    idle = set(reasons) - blamed
    with st.sidebar:
        model_input(draft)
        preset_input(draft)
        finder.search_input(reasons)
        for section in SECTIONS:
            _section(section, draft, idle, blamed)
        _unit()
        finder.lead()
        typed.sign()


def _values(draft: Draft) -> Any:
    """What stands in the inputs, which need not be a plan."""
    return SimpleNamespace(**draft.values)


def _section(section: Section, draft: Draft, idle: Collection[str], blamed: set[str]) -> None:
    st.markdown(f"{section.icon} **{section.title}**")
    for row in section.inputs:
        if row[0] in OWN:
            OWN[row[0]](draft)
        else:
            _side_by_side(draft, tuple(name for name in row if name not in idle))
        if lengths.LIMIT in row and (lengths.FIELD not in idle or draft.values[lengths.FIELD]):
            lengths.lengths_input(draft)
    if any("prompts_per_step" in row for row in section.inputs):
        _batch(draft)
    for group in section.groups:
        _group(group, draft, [name for name in group.fields if name not in idle], blamed)


def _side_by_side(draft: Draft, names: tuple[str, ...]) -> None:
    for column, name in zip(st.columns(len(names)), names, strict=True):
        with column:
            widgets.field(name, draft.values)


def _batch(draft: Draft) -> None:
    """Each of the batch's figures by the others, and as the framework's own options have them."""
    st.caption(f"{batch_words(_values(draft))}.")
    if draft.plan is not None:
        framework = framework_named(draft.plan.framework)
        options = framework.batch_options(draft.plan).items()
        if options:
            said = " · ".join(f"{option} {value:,}" for option, value in options)
            st.caption(plain(f"{framework.label}: {said}"))


def _group(group: Group, draft: Draft, fields: list[str], blamed: set[str]) -> None:
    if not fields:
        return
    title = group.title
    if changed := len({*draft.changed()}.intersection(fields)):
        title += f" · {changed} changed"
    if wrong := len(blamed.intersection(fields)):
        title += f" · :red[{wrong} to fix]"
    with folded(title, f"group:{group.key}", icon=group.icon) as opened:
        for name in fields if opened else ():
            widgets.field(name, draft.values)


def _unit() -> None:
    segments(
        "Memory in",
        ["GiB", "GB"],
        "unit",
        default="GiB",
        help="GiB is 2³⁰ bytes, the unit of drivers and PyTorch. GB is 10⁹ bytes, the unit of "
        "sellers: an “80 GB” H100 has 79.1 GiB, which is 84.9 GB. Sentences use GiB.",
    )
