"""Advice on the plan at hand, beside the phases: Make it fit, or Use the free memory.

:func:`show` keeps the panel's place and draws its head. What it gives works out the rest: a page
calls it last, so that verdict and chart are there before advice begins; an edit made meanwhile does
not wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner.advice.advice import Advice
from planner.advice.idle import together
from planner.advice.outcome import outcome_of
from planner.advice.share import has_engine, in_words, room_of
from planner.advice.suggestion import Suggestion
from planner.footprint import Footprint
from planner.ui import compute
from planner.ui.elements import said, segments
from planner.ui.plan import suggested
from planner.ui.state import session
from planner.units import read_count, read_seconds
from planner.wording.fields import labelled

SHOWN = 5
PAUSE_SECONDS = 0.25
"""A page stands so long before advice begins: somebody who goes on typing is not kept waiting."""
SLICES = 5

FIT, ROOM, SINGLE, SHARE, IDLE = (
    *("Make it fit", "Use the free memory", "Edits", "vLLM", "No effect"),
)
NEEDS = {
    FIT: ("ways",),
    ROOM: ("faster", "used", "cheaper"),
    SINGLE: ("made",),
    SHARE: ("share",),
    IDLE: ("idle",),
}
"""Parts of the advice that a view shows."""


def show(footprint: Footprint, phase: str = "") -> Callable[[], None]:
    """The panel's place where it is called; what it gives fills the place, last on the page.

    Args:
        footprint: the plan's, as the page shows it.
        phase: name of the phase whose peak is to be lowered; empty is the one that decides.
    """
    fits = footprint.verdict.word == "fits"
    with st.container(key="advice"):
        st.subheader("Advice", anchor="advice")
        suggested.notice("advice")
        views = [ROOM if fits else FIT, SINGLE, IDLE]
        if has_engine(footprint.plan):
            views.insert(2, SHARE)
        view = _view(views, phase)
        place = st.container(key=f"advice-of:{view}")
    draw = {FIT: _fit, ROOM: _room, SHARE: _share, IDLE: _idle}

    def finish() -> None:
        if view == ROOM and not _wanted(place, footprint):
            return
        advice = compute.advice(footprint.plan)
        if not advice.knows(*NEEDS[view]):
            _pause()
        if view == SINGLE:
            _single(place, advice, phase or advice.outcome.worst)
        else:
            draw[view](place, advice)

    return finish


def _view(views: list[str], phase: str) -> str:
    """The chosen view; single edits once a phase was chosen, and else what the verdict asks for."""
    key = "advice view"
    asked = (views[0], phase)
    if st.session_state.get("advice asked") != asked or st.session_state.get(key) not in views:
        st.session_state["advice asked"] = asked
        st.session_state[key] = SINGLE if phase else views[0]
    return segments("Advice on", views, key, label_visibility="collapsed")


def _wanted(place: DeltaGenerator, footprint: Footprint) -> bool:
    """What is left of the card; whether this visitor asked what it buys, once and for all.

    Nobody needs it to go on, and it takes as long as a page: an edit is not to pay for it unasked.
    """
    left = max(footprint.budget_bytes - footprint.device_bytes, 0)
    with place:
        st.markdown(
            f"{session.read(left)} ({left / footprint.budget_bytes:.0%}) free at the peak."
        )
        if st.session_state.get("room wanted"):
            return True
        words = in_words(outcome_of(footprint), session.read)
        if words:
            st.markdown(said(words))
        st.button(
            ROOM,
            key="use-the-room",
            on_click=_want,
            icon=":material/speed:",
            type="primary",
            help="Shows what the free memory could buy: a faster step, or fewer GPUs. Nothing "
            "changes yet.",
        )
    return False


def _want() -> None:
    st.session_state["room wanted"] = True


def _pause() -> None:
    for _ in range(SLICES):
        time.sleep(PAUSE_SECONDS / SLICES)
        compute.give_way()


def _fit(place: DeltaGenerator, advice: Advice) -> None:
    ways = advice.ways
    with place:
        if not ways:
            st.markdown(
                "None of the changes tried makes this plan start. **GPU options**, below, tries "
                "every GPU."
            )
            return
        if not ways[0].fits:
            st.markdown(
                "None of the changes tried makes this plan fit with 10% to spare; this one "
                "comes closest."
            )
        for number, one in enumerate(ways):
            first = number == 0
            suggested.card(
                one,
                "make-it-fit" if first else f"way:{number}",
                FIT if first and one.fits else "Apply",
                _kept(one),
                first=first,
            )


def _kept(one: Suggestion) -> str:
    """What a way keeps of what was asked for."""
    if one.keeps:
        return "Keeps model, lengths and GPUs"
    return "Changes what is trained" if one.kind == "training" else "Adds GPUs"


def _room(place: DeltaGenerator, advice: Advice) -> None:
    used, faster, cheaper = advice.used, advice.faster, advice.cheaper
    with place:
        if not faster and not cheaper:
            st.markdown("None of the changes tried makes a step faster or the run cheaper.")
        if used is not None and len(used.edits) > 1:
            suggested.card(used, "room-all", lead="All together", first=True)
        suggested.cards(faster[:SHOWN], "faster")
        suggested.cards(cheaper, "cheaper")
        if faster and not any(one.seconds.sure for one in faster):
            st.caption(
                "These changes are faster by the estimate, but each gain is within the error of "
                "the times. A trial would tell."
            )


def _single(place: DeltaGenerator, advice: Advice, phase: str) -> None:
    found, pairs = advice.singles, advice.pairs
    decides = phase == advice.outcome.worst
    with place:
        if decides or advice.outcome.blockers:
            _ranked(found, pairs, advice)
        lowering = advice.lowering(phase)
        which = ", the peak" if decides else ""
        if not lowering:
            st.caption(f"No single change lowers {phase}{which}.")
            return
        st.markdown(f"**What lowers {phase}**{which}")
        lines = [f"{labelled(one.title)}: {suggested.brief(one, phase)}" for one in lowering]
        if decides:
            st.markdown("\n".join(f"- {line}" for line in lines[: 2 * SHOWN]))
            return
        suggested.cards(lowering[:SHOWN], "lower")


def _ranked(found: tuple[Suggestion, ...], pairs: tuple[Suggestion, ...], advice: Advice) -> None:
    fits = advice.outcome.fits
    if not found:
        st.caption("No single change makes this plan run or saves memory.")
    elif not fits and not any(one.fits for one in found):
        st.caption("None of these changes is enough by itself.")
    suggested.cards(found[:SHOWN], "apply")
    if pairs:
        st.markdown("**Two together**" + (", one in the memory the other frees" if fits else ""))
    suggested.cards(pairs, "pair")


def _share(place: DeltaGenerator, advice: Advice) -> None:
    with place:
        st.markdown(said(advice.share_words(session.read)))
        if not advice.share:
            st.caption("No other memory share or tensor parallel size of vLLM fits here.")
        for number, one in enumerate(advice.share):
            room = room_of(one.after.plan)
            seconds = one.after.step_seconds
            step = "" if seconds is None else f", step {read_seconds(seconds)}"
            plan = one.after.plan
            spread = read_count(plan.rollout_tensor_parallel, "GPU")
            suggested.card(
                one,
                f"share:{number}",
                lead=f"{plan.gpu_memory_utilization:.0%} of {spread}: can hold {room.holds:,} of "
                f"{room.wanted:,} full-length sequences{step}",
            )


def _idle(place: DeltaGenerator, advice: Advice) -> None:
    found = together(advice.idle)
    with place:
        if not found:
            st.markdown("Every change that is often tried does change the peak here.")
            return
        st.markdown("**Often tried, no help here**")
        lines = (f"- **{name[0].upper()}{name[1:]}**: {labelled(why)}." for name, why in found)
        st.markdown("\n".join(lines))
