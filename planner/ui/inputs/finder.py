"""The search over settings: what a thing is called here, and the way to its input.

Session key, set here only: ``sought``, the field that was chosen, until the run that leads there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import streamlit as st

from planner.ui.elements import button, said
from planner.ui.inputs.groups import GROUPS
from planner.wording import subjects
from planner.wording.display import plain
from planner.wording.fields import short_label
from planner.wording.subjects import Subject

KEY, SOUGHT = "find", "sought"
LEAD = """<script>
(() => {
  let tries = 60;
  const look = () => {
    const field = document.querySelector(".st-key-field-" + CSS.escape(%s));
    if (!field) return tries-- ? setTimeout(look, 50) : null;
    setTimeout(() => {  // a group takes a moment to unfold
      field.scrollIntoView({block: "center"});
      field.querySelector("input, textarea")?.focus({preventScroll: true});
      field.animate([{boxShadow: "0 0 0 3px #E69F00"}, {boxShadow: "0 0 0 3px transparent"}], 2500);
    }, 500);
  };
  look();
})();
</script>"""
"""Shows and focuses an input as soon as it is drawn: its group may just have been unfolded."""


def search_input(idle: Mapping[str, str]) -> None:
    """Where a name is typed, and what is known by it; ``idle`` says why a field changes nothing."""
    text = st.text_input(
        "Find a setting",
        key=KEY,
        placeholder="Find a setting: TP, KV cache, clip, Slurm…",
        label_visibility="collapsed",
        help="Type the name that a framework or a paper uses for a setting, and press Enter.",
        icon=":material/search:",
    )
    if not text.strip():
        return
    with st.container(border=True, key="found"):
        for subject in subjects.find(text):
            _found(subject, idle.get(subject.key, ""))
            called = (f"{name}: `{word}`" for name, word in subjects.options(subject).items())
            st.caption(f"{subject.says}  \n{' · '.join(called)}")
        if not subjects.find(text):
            st.markdown(
                f"No setting here is called “{plain(text[:40])}”. If your framework has such a "
                "setting, Headroom does not count its effect."
            )


def _found(subject: Subject, idle: str) -> None:
    """The way to an input, or why there is none."""
    if subject.title:
        icon = ":orange[:material/construction:]" if subject.missing else ":material/info:"
        st.markdown(f"{icon} **{subject.title}**")
    elif idle:
        st.markdown(f"**{short_label(subject.key)}** · no effect in this plan: {said(idle)}")
    else:
        button(
            *(short_label(subject.key), f"open-{subject.key}", "arrow_forward", _open, subject.key),
            type="tertiary",
        )


def _open(field: str) -> None:
    for group in (one for one in GROUPS if field in one.fields):
        st.session_state[f"open:group:{group.key}"] = True
    st.session_state[SOUGHT] = field


def lead() -> None:
    """Bring the input that was chosen into view; drawn after all of them."""
    field = st.session_state.pop(SOUGHT, "")
    if field:
        st.html(LEAD % json.dumps(field), unsafe_allow_javascript=True)
