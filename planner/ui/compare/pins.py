"""Pinning: the plan on the page, a pasted link, a file; names, and the way back to a plan.

Session keys, set here only: ``pin error``, what was wrong with what was pasted, sent or typed;
``pins file`` and ``pasted pin``, the widgets.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from planner.comparison import distinct
from planner.plan import Plan
from planner.plan.pin import MOST, Pinned, checked_name, from_file, from_link, to_file
from planner.ui import uploads
from planner.ui.compare import rows
from planner.ui.elements import download, said
from planner.ui.state import session
from planner.units import read_count

ERROR, FILE, PASTED = "pin error", "pins file", "pasted pin"
LETTERS = ("Plan A", "Plan B", "Plan C", "Plan D")
THIS = "This plan"


def button(
    one: Pinned,
    key: str = "pin-plan",
    text: str = "Pin this plan",
    done: str = "Pinned",
    about: str = "Keeps this plan on the Compare page and in the link while you change settings.",
) -> None:
    """Pin a plan, the one on the page, or say that it is pinned."""
    pinned = session.pins()
    is_pinned = one.plan in (each.plan for each in pinned)
    full = len(pinned) >= MOST
    st.button(
        done if is_pinned else text,
        icon=":material/keep:",
        key=key,
        on_click=pin,
        args=([one],),
        disabled=is_pinned or full,
        help=f"{MOST} plans are pinned; remove one on Compare."
        if full and not is_pinned
        else about,
    )


def controls(plan: Plan, shown: Sequence[Pinned]) -> None:
    """Pin, paste, send a file, save a file."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="pin-controls"):
        button(Pinned(plan))
        st.text_input(
            "Link of a plan to pin",
            key=PASTED,
            placeholder="or paste a link of this app",
            on_change=_paste,
        )
        with st.popover("Plan file", icon=":material/description:"):
            st.caption(
                "A plan file holds every setting of each plan and stays valid in later versions. "
                "Use a plan file when a link would get too long."
            )
            if shown:
                download("Save these plans", to_file(shown), "headroom-plans.json", "pins-save")
            uploads.uploader("Open a plan file", FILE, type=["json"], on_change=_receive)
    if ERROR in st.session_state:
        st.warning(said(st.session_state[ERROR]), icon=":material/link_off:")
    if session.pins() and not session.pins_of_the_link():
        st.warning(
            "These plans are too long for a link, so a reload loses them. Save them as a plan "
            "file; anyone can open it here.",
            icon=":material/description:",
        )


def pin(new: Sequence[Pinned]) -> None:
    """Keep more plans, each once and under a name; what is beyond the most is said."""
    kept = list(session.pins())
    left_out = 0
    for one in new:
        if one.plan in (each.plan for each in kept):
            continue
        if len(kept) == MOST:
            left_out += 1
            continue
        taken = {each.name for each in kept}
        name = one.name or next(each for each in LETTERS if each not in taken)
        kept.append(Pinned(one.plan, name))
    _keep(kept)
    if left_out:
        st.session_state[ERROR] = (
            f"At most {MOST} plans can be compared; {read_count(left_out, 'plan')} "
            f"{'was' if left_out == 1 else 'were'} not added. Remove one first."
        )


def remove(place: int) -> None:
    """Let a pinned plan go."""
    _keep([one for at, one in enumerate(session.pins()) if at != place])


def rename(place: int, key: str) -> None:
    """The name that was typed, unless it cannot be one."""
    try:
        name = checked_name(st.session_state[key])
    except ValueError as error:
        st.session_state[ERROR] = f"The name {error}."
        return
    kept = list(session.pins())
    kept[place] = Pinned(kept[place].plan, name or LETTERS[place])
    _keep(kept)


def named(plan: Plan) -> tuple[tuple[str, Pinned, int | None], ...]:
    """The plans that are shown: name, plan, and its place among the pins, if it is one.

    The plan on the page is last, as what became of those that were pinned before, unless it is
    one of them or they leave no room for it.
    """
    pinned = session.pins()
    own = plan not in (one.plan for one in pinned) and len(pinned) < MOST
    shown = (*pinned, *((Pinned(plan, THIS),) if own else ()))
    names = distinct([one.name for one in shown], rows.OWN_COLUMNS)
    places = (*range(len(pinned)), None)
    return tuple(zip(names, shown, places, strict=False))


def _keep(pinned: Sequence[Pinned]) -> None:
    session.set_pins(pinned)
    st.session_state.pop(ERROR, None)


def _paste() -> None:
    text = st.session_state[PASTED].strip()
    st.session_state[PASTED] = ""
    if not text:
        return
    if "=" not in text:
        st.session_state[ERROR] = (
            f"{text[:40]} is not a link to a plan. Copy a link from Share on the Plan page."
        )
        return
    try:
        pin([Pinned(from_link(text))])
    except ValueError as error:
        st.session_state[ERROR] = f"The link {error}"


def _receive() -> None:
    file = uploads.sent(FILE)
    if file is None:
        return
    found, problems = from_file(file.getvalue())
    pin(found)
    if problems:
        told = " ".join(one.sentence for one in problems)
        st.session_state[ERROR] = f"The plan file: {told}"
