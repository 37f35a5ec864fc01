"""The one sidebar of all pages: preset, eight inputs, folded groups.

A field that changes nothing in the present plan is not shown, unless it is what makes
the plan impossible.
"""

from __future__ import annotations

from types import SimpleNamespace

import streamlit as st

from planner.plan.presets import presets
from planner.plan.relevance import without_effect
from planner.ui.elements import folded, segments
from planner.ui.inputs import lengths, widgets
from planner.ui.inputs.gpu import gpu_input
from planner.ui.inputs.groups import GROUPS, Group
from planner.ui.inputs.model import model_input
from planner.ui.state import session
from planner.ui.state.draft import Draft


def draw() -> None:
    """Draw the sidebar of the current draft."""
    draft = session.draft()
    blamed = {problem.field for problem in draft.problems}
    idle = set(without_effect(SimpleNamespace(**draft.values))) - blamed
    with st.sidebar:
        _preset(draft)
        model_input(draft)
        widgets.field("method", draft.values)
        gpu_input(draft)
        _side_by_side(draft, ("prompt_tokens", "response_tokens"))
        if lengths.FIELD not in idle or draft.values[lengths.FIELD]:
            lengths.lengths_input(draft)
        last = ("responses_per_prompt", "finetuning")
        _side_by_side(draft, tuple(name for name in last if name not in idle))
        for group in GROUPS:
            _group(group, draft, [name for name in group.fields if name not in idle], blamed)
        _unit()


def _side_by_side(draft: Draft, names: tuple[str, ...]) -> None:
    for column, name in zip(st.columns(2), names, strict=False):
        with column:
            widgets.field(name, draft.values)


def _preset(draft: Draft) -> None:
    known = sorted(presets().values(), key=lambda preset: preset.task)
    titles = {preset.key: preset.title for preset in known}
    widgets.mirror("preset", draft.preset)
    st.selectbox(
        "Start from",
        list(titles),
        index=list(titles).index(draft.preset),
        key="preset",
        format_func=lambda key: titles[key],
        help=f"{draft.base.task}: {draft.base.description}\n\nA preset is a complete plan that "
        f"never changes once released; links name it as `{draft.preset}`.",
        on_change=lambda: session.open_preset(st.session_state["preset"]),
    )
    count = len(draft.changed())
    differ = "field differs" if count == 1 else "fields differ"
    # Always there, so that the inputs below keep their place.
    st.button(
        f"{count} {differ} · start over" if count else "Nothing changed yet",
        icon=":material/restart_alt:",
        type="tertiary",
        disabled=not count,
        on_click=session.open_preset,
        args=(draft.preset,),
        key="start-over",
    )


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
        help="GiB is 2³⁰ bytes, what drivers and PyTorch count in. GB is 10⁹ bytes, what "
        "sellers say: an “80 GB” H100 has 79.1 GiB, which is 84.9 GB. Sentences use GiB.",
    )
