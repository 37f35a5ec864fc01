"""A suggestion on a page: what changes, what that does, Apply; and what a taken one did."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from planner.advice.outcome import Difference, Outcome
from planner.advice.suggestion import PhaseChange, Suggestion
from planner.plan.chosen import Change, differences
from planner.ui import messages
from planner.ui.elements import TONES, row
from planner.ui.state import session
from planner.units import read_seconds, read_usd
from planner.wording.display import plain
from planner.wording.fields import labelled, short_label

COLORS = {"good": "green", "doubt": "orange", "bad": "red"}


def cards(found: Iterable[Suggestion], key: str) -> None:
    """One below the other, each by its place."""
    for number, one in enumerate(found):
        card(one, f"{key}:{number}")


def card(
    one: Suggestion, key: str, button: str = "Apply", lead: str = "", *, first: bool = False
) -> None:
    """What changes, what it does and a button that takes it.

    Args:
        one: the suggestion.
        key: of its button; others are made of it.
        button: what stands on it.
        lead: what of it matters most here; its title where nothing is said.
        first: whether it is the one to take.
    """
    with st.container(border=True, key=f"card:{key}", gap="xsmall"):
        st.markdown(f"{_marks(one)}**{lead or labelled(one.title)}**  \n{effect(one)}")
        if lead or len(one.edits) > 1:
            plans = (each.plan.model_dump() for each in (one.before, one.after))
            st.markdown(f":small[{from_to(differences(*plans))}]")
        with row(f"row:{key}"):
            st.button(
                button,
                key=key,
                on_click=session.apply,
                args=(dict(one.changes),),
                icon=":material/check:",
                type="primary" if first else "secondary",
            )
            with st.popover("By phase", key=f"phases:{key}", type="tertiary"):
                st.markdown(HEAD + "\n".join(map(_line, one.phases())))


def _marks(one: Suggestion) -> str:
    found = ""
    if one.unblocks:
        found += f":green-badge[{_starts(one)}] "
    word = one.after.word
    if word != one.before.word:
        text = {"fits": "makes it fit", "tight": "tight"}.get(word, word)
        found += f":{COLORS[TONES[word]]}-badge[{text}] "
    if one.cost:
        found += f":orange-badge[{one.cost}] "
    return found


def _starts(one: Suggestion) -> str:
    """What starts that did not."""
    return "vLLM starts" if any("vLLM" in why for why in one.before.blockers) else "starts"


def effect(one: Suggestion) -> str:
    """Peak, step and cost before and after; no gain inside the error is called one."""
    before, after = one.before, one.after
    was, now = session.read(before.device_bytes), session.read(after.device_bytes)
    parts = [
        f"same peak {was}" if was == now else f"peak {was} → **{now}**",
        _seconds(one),
        *_usd(before, after, one.usd),
        *_host(before, after),
    ]
    return " · ".join(parts)


def _seconds(one: Suggestion) -> str:
    found, sides = one.seconds, (one.before, one.after)
    if found.sign in ("same", "not known") or not all(side.runs for side in sides):
        return one.time_words
    was, now = (read_seconds(side.step_seconds or 0.0) for side in sides)
    return f"step {was} → **{now}**" if found.sure else f"step {was} → {now}, within the error"


def _usd(before: Outcome, after: Outcome, found: Difference) -> list[str]:
    if after.usd_run is None:
        return []
    now = read_usd(after.usd_run).replace("$", r"\$")
    if before.usd_run is None:
        return [f"run **{now}**"]
    if found.sign == "same":
        return []
    was = read_usd(before.usd_run).replace("$", r"\$")
    return [f"run {was} → **{now}**" if found.sure else f"run {was} → {now}"]


def _host(before: Outcome, after: Outcome) -> list[str]:
    """Host RAM of a node, where it grows by more than a reader would overlook."""
    was, now = before.host_bytes or 0, after.host_bytes or 0
    if now <= 1.1 * was:
        return []
    return [f"host RAM {session.read(was)} → **{session.read(now)}**"]


HEAD = "| Phase | Memory | then | Seconds | then |\n|:--|--:|--:|--:|--:|\n"


def _line(phase: PhaseChange) -> str:
    sides = (phase.before, phase.after)
    sizes = ["—" if side is None else session.read(side.device_bytes) for side in sides]
    times = [
        "—" if side is None or side.seconds is None else read_seconds(side.seconds)
        for side in sides
    ]
    if sizes[0] != sizes[1]:
        sizes[1] = f"**{sizes[1]}**"
    if times[0] != times[1]:
        times[1] = f"**{times[1]}**"
    return f"| {phase.name} | {sizes[0]} | {sizes[1]} | {times[0]} | {times[1]} |"


def brief(one: Suggestion, phase: str) -> str:
    """What it saves in one phase, and what it does to time."""
    return f"{session.read(one.lowered_bytes(phase))} less in {phase}, {one.time_words}"


def notice(place: str) -> None:
    """While the last thing that happened was that a suggestion was taken; ``place`` keys it."""
    last = session.applied()
    if last is None:
        return
    changes = differences(last.before.values, last.after.values)
    effect = messages.what_it_does(last.before.plan, last.after.plan)
    with st.container(border=True, key=f"applied-{place}"):
        st.markdown(f":material/check_circle: **Applied.** {from_to(changes)}.  \n{effect}")
        with st.container(horizontal=True):
            st.button(
                "Undo",
                key=f"undo-applied-{place}",
                on_click=session.take_back_applied,
                icon=":material/undo:",
                help="Resets every setting to its value from before.",
            )
            icon = ":material/rocket_launch:"
            st.page_link("pages/launch.py", label="Go to Launch", icon=icon)


def from_to(changes: tuple[Change, ...]) -> str:
    """Fields by label, each with its value before and now."""
    return ", ".join(
        f"{short_label(one.field)} {plain(messages.spoken(one, 'before'))} → "
        f"**{plain(messages.spoken(one))}**"
        for one in changes
    )
