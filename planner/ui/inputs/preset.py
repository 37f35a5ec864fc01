"""Where a plan starts from, what of it differs by now, and the way back for each field."""

from __future__ import annotations

import streamlit as st

from planner.examples.recipes import beside
from planner.plan.chosen import Change, differences
from planner.plan.presets import DOCUMENTS, Preset, listed
from planner.ui.elements import popped
from planner.ui.state import session, typed
from planner.ui.state.draft import Draft
from planner.ui.trial.allowed import permitted
from planner.wording.choices import spoken
from planner.wording.display import plain
from planner.wording.fields import short_label

KEY = "differences"
SCROLLS = 8
"""More differences than this scroll."""
HEIGHT = 420


def preset_input(draft: Draft) -> None:
    """The selector, and below it what differs."""
    titles = {preset.key: _titled(preset) for preset in listed(draft.preset)}
    typed.mirror("preset", draft.preset, session.open_preset)
    st.selectbox(
        "Start from",
        list(titles),
        index=list(titles).index(draft.preset),
        key="preset",
        format_func=lambda key: titles[key],
        help=f"{draft.base.task}: {draft.base.description}\n\nA preset is a complete plan that "
        f"never changes once released; links name it as `{draft.preset}`. Recipes are public runs, "
        "with what was published about them; worked examples are explained on the Examples page.",
    )
    changes = differences(draft.base.plan.model_dump(), draft.values)
    # Always there, so that the inputs below keep their place.
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if changes:
            _differences(changes)
        st.button(
            "Start over" if changes else "Nothing changed yet",
            icon=":material/restart_alt:",
            type="tertiary",
            disabled=not changes,
            on_click=session.open_preset,
            args=(draft.preset,),
            key="start-over",
        )
        _kept(draft)
    if draft.base.published is not None:
        _published(draft.base)


def _kept(draft: Draft) -> None:
    """The visitor's own plans, where this machine may store them."""
    if not permitted():
        return
    with popped("My plans", "kept-plans", icon=":material/bookmarks:") as opened:
        if opened:
            # The store loads SQLAlchemy, which no first page waits for.
            from planner.ui import kept

            kept.shelf(draft.plan)


def _titled(preset: Preset) -> str:
    group = "Worked example" if preset.task == DOCUMENTS else "Recipe" if preset.published else ""
    return f"{group} · {preset.title}" if group else preset.title


def _published(recipe: Preset) -> None:
    """What its source says of a recipe, and what an estimate says of it as it was opened."""
    found = recipe.published
    assert found is not None
    lines = [f"- Published: {said}  \n  Headroom: {ours}" for said, ours in beside(recipe)]
    st.caption(
        "\n".join(
            (
                f"The recipe as released, by its [source]({found.source}), read {found.read}:\n",
                *lines,
                f"\n{found.differs}",
            )
        )
    )


def _differences(changes: tuple[Change, ...]) -> None:
    count = len(changes)
    title = "1 field differs" if count == 1 else f"{count} fields differ"
    with popped(title, KEY, icon=":material/difference:") as opened:
        if opened:
            st.caption("Each field that differs from the preset, with a button to reset it.")
            with st.container(height=HEIGHT if count > SCROLLS else "content", border=False):
                for change in changes:
                    _difference(change)


def _difference(change: Change) -> None:
    before, after = (plain(_short(change.field, value)) for value in (change.before, change.after))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{short_label(change.field)}**  \n{before} → {after}", width="stretch")
        st.button(
            "Back",
            icon=":material/undo:",
            type="tertiary",
            help=f"{short_label(change.field)} back to {before}",
            on_click=session.restore,
            args=(change.field,),
            key=f"back:{change.field}",
        )


def _short(field: str, value: object) -> str:
    """A value as its list shows it; a pasted config by its size alone."""
    text = spoken(field, value)
    return text if len(text) <= 60 else f"{text[:57]}…"
