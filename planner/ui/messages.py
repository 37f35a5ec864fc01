"""What is said above a page: a link that was not quite right, a plan that is not possible."""

from __future__ import annotations

import streamlit as st

from planner.plan import Plan
from planner.problem import Problem
from planner.speeds import obstacle as obstacle_of_speeds
from planner.trial.evidence.correction import apply, obstacle
from planner.ui import compute, session
from planner.ui.display import say
from planner.ui.draft import Draft
from planner.ui.fields import short_label
from planner.ui.groups import GROUPS

SHOWN = 8
"""More problems than this are folded."""


def about_the_link() -> None:
    """One calm message about everything in the opened link that could not be used."""
    reading = session.reading()
    if reading is None:
        return
    with st.container(border=True, key="link-message"):
        count = len(reading.problems)
        noun = "thing" if count == 1 else f"{count} things"
        lead = (
            "The rest of the link is used; this is the nearest possible plan."
            if reading.plan is not None
            else "Nothing of it could be used; the plan from before is shown."
        )
        st.markdown(f":material/link_off: **The link has {noun} to correct.** {lead}")
        _list(reading.problems[:SHOWN])
        if count > SHOWN:
            with st.expander(f"{count - SHOWN} more"):
                _list(reading.problems[SHOWN:])
        st.button("Understood", on_click=session.dismiss_reading, key="dismiss-reading")


def about_the_calibration() -> None:
    """What the correction factors make of the verdict, and that the page itself is uncorrected."""
    factors, plan = session.calibration(), session.draft().plan
    if factors is None or plan is None:
        return
    footprint = compute.footprint(plan)
    why = obstacle(factors, footprint)
    with st.container(border=True, key="calibration-message"):
        st.markdown(":material/tune: **The link carries corrections measured by trials.**")
        if why:
            st.markdown(plain(why))
        else:
            done = apply(factors, footprint)
            st.markdown(f"Corrected: {plain(done.footprint.verdict.sentence)}.")
            st.caption(plain(f"{done.notes[0]} The figures below are the uncorrected estimate."))
        st.button("Take them off", on_click=session.take_calibration_off, key="calibration-off")


def about_the_benchmark() -> None:
    """Whose times the pages show, or why the link's measured shares are not used."""
    speeds, plan = session.speeds(), session.draft().plan
    if speeds is None or plan is None:
        return
    why = obstacle_of_speeds(speeds, plan)
    with st.container(border=True, key="benchmark-message"):
        st.markdown(":material/timer: **The link carries a benchmark of the card.**")
        if why:
            st.markdown(plain(why))
        else:
            count = len(speeds.speeds)
            values = "a value" if count == 1 else f"{count} values"
            st.markdown(
                plain(
                    f"Times of plans on {speeds.gpu} rest on {values} measured on such a card "
                    f"({speeds.words}), and on published runs for the rest."
                )
            )
        st.button("Take it off", on_click=session.take_speeds_off, key="benchmark-off")


def impossible(draft: Draft) -> None:
    """In place of the verdict: what makes the plan impossible, and the ways out."""
    st.error(
        "**This plan is not possible.** What you typed is kept; no numbers are shown for it.",
        icon=":material/block:",
    )
    _list(draft.problems)
    if "undo" in st.session_state:
        st.button(
            "Back to the last possible plan",
            on_click=session.undo,
            icon=":material/undo:",
            key="undo-impossible",
        )


def followed(draft: Draft) -> None:
    """Which fields changed besides the edited one."""
    if not draft.followed:
        return
    parts = [
        f"{short_label(change.field)}: {say(change.before)} → **{say(change.after)}**"
        for change in draft.followed
    ]
    st.caption(":material/subdirectory_arrow_right: Followed your change: " + " · ".join(parts))


def _list(problems: tuple[Problem, ...]) -> None:
    st.markdown("\n".join(f"- {_lead(p)}{plain(p.message)} {plain(p.fix)}" for p in problems))


def _lead(problem: Problem) -> str:
    """The input's label and where it is, or the key when it is no field."""
    if problem.field not in Plan.model_fields:
        return f"`{_code(problem.field)}`: "
    group = next((g.title for g in GROUPS if problem.field in g.fields), "")
    place = f" (under {group})" if group else ""
    return f"**{short_label(problem.field)}**{place}: "


def _code(text: str) -> str:
    return text.replace("`", "'")


def plain(text: str) -> str:
    """Text from outside, so that Markdown shows it as it is."""
    for mark in "\\`*_[]<>$#:|~":
        text = text.replace(mark, "\\" + mark)
    return text
