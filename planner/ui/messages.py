"""What is said above a page: a link that was not quite right, a plan that is not possible."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import pandas as pd
import streamlit as st

from planner.comparison import old_and_new
from planner.plan import Plan
from planner.plan.chosen import Change, differences
from planner.plan.facts import obstacle as obstacle_of_speeds
from planner.plan.link import Reading
from planner.plan.possible_batches import possible_batches
from planner.plan.query import BENCHMARK, CALIBRATION, LINK
from planner.problem import Problem
from planner.trial.evidence.correction import apply, obstacle
from planner.ui import compute
from planner.ui.elements import row, said, text_table
from planner.ui.inputs.groups import GROUPS
from planner.ui.state import address, session
from planner.ui.state import draft as drafts
from planner.ui.state.draft import Draft
from planner.units import read_count
from planner.wording.choices import spoken as choice
from planner.wording.display import plain
from planner.wording.fields import short_label

SHOWN = 8
"""More problems than this are folded."""


def about_the_link() -> None:
    """One calm message about what in the opened link could not be used, or is planned otherwise."""
    reading = session.reading()
    if reading is None:
        return
    with st.container(border=True, key="link-message"):
        if reading.problems:
            _to_correct(reading)
        for note in reading.told:
            st.markdown(f":material/info: {said(note)}")
        label = "Plan without it" if reading.left_out else "Understood"
        st.button(label, on_click=session.dismiss_reading, key="dismiss-reading")


def _to_correct(reading: Reading) -> None:
    count = len(reading.problems)
    lead = (
        f"The plan is shown without {'that part' if count == 1 else 'those parts'}."
        if reading.plan is not None
        else "The rest of it gives no plan, so the page still shows the plan from before."
    )
    parts = read_count(count, "part")
    st.markdown(f":material/link_off: **{parts} of this {reading.of} could not be used.** {lead}")
    if reading.of == "import":  # the verdict of every page names each, and what it does
        return
    _list(reading.problems[:SHOWN])
    if count > SHOWN:
        with st.expander(f"{count - SHOWN} more"):
            _list(reading.problems[SHOWN:])


def about_the_calibration() -> None:
    """Say that the link's trials correct the page, and what the verdict is without them."""
    factors, plan = session.calibration(), session.draft().plan
    if factors is None or plan is None:
        return
    footprint = compute.uncorrected(plan)
    with _carried(CALIBRATION, "tune", "corrections measured by trials", "Take them off"):
        if why := obstacle(factors, footprint):
            st.markdown(said(why))
        else:
            done = apply(factors, footprint)
            st.markdown(f"Without them: {plain(footprint.verdict.sentence)}")
            st.caption(plain(" ".join(done.notes)))


def about_the_benchmark() -> None:
    """Whose times the pages show, or why the link's measured shares are not used."""
    speeds, plan = session.speeds(), session.draft().plan
    if speeds is None or plan is None:
        return
    count = len(speeds.speeds)
    values = "a value" if count == 1 else f"{count} values"
    rest = (
        f"Times of plans on {speeds.gpu} use {values} measured on such a GPU ({speeds.words}); "
        "everything else comes from published runs."
    )
    with _carried(BENCHMARK, "timer", "a benchmark of the card", "Take it off"):
        st.markdown(said(obstacle_of_speeds(speeds, plan) or rest))


@contextmanager
def _carried(key: str, icon: str, what: str, off: str) -> Iterator[None]:
    """A message about what the link carries beside the plan, and the button that drops it."""
    with st.container(border=True, key=f"{key}-message"):
        st.markdown(f":material/{icon}: **The link carries {what}.**")
        yield
        st.button(off, on_click=session.carry, args=(key,), key=f"{key}-off")


def impossible(draft: Draft) -> None:
    """In place of the verdict: what makes the plan impossible, and the ways out."""
    st.error(
        "**This plan is not possible.** What you typed is kept; no numbers are shown for it.",
        icon=":material/block:",
    )
    _list(draft.problems)
    batches = possible_batches(draft.values)
    if batches:
        nearest = differences(draft.values, {**draft.values, **batches})
        st.markdown(f"**Nearest that is possible:** {plain(in_words(nearest))}.")
    with row("ways-out"):
        if batches:
            st.button(
                "Make it possible",
                on_click=session.apply,
                args=(batches,),
                icon=":material/check:",
                key="make-possible",
                type="primary",
            )
        if "undo" in st.session_state:
            st.button(
                "Back to the last possible plan",
                on_click=session.undo,
                icon=":material/undo:",
                key="undo-impossible",
            )


def about_the_edit(draft: Draft, place: str = "") -> None:
    """What the last edit changed besides, and what it would change where less had been chosen.

    It stands on the page that was open when the edit was made, and on no other.
    """
    place = place or address.page_path()
    told_on = st.session_state.get("told on")
    if told_on is None or told_on[0] is not draft:
        told_on = st.session_state["told on"] = (draft, place)
    if told_on[1] != place:
        return
    told = [one for one in draft.followed if one.field != "framework_version"]
    if told or drafts.offered(draft) is None:
        followed(draft)
    offer(draft)


def followed(draft: Draft) -> None:
    """Which fields changed besides the edited one, what that does, and the way back."""
    if not draft.followed or draft.before is None:
        return
    count = read_count(len(draft.followed), "other setting")
    led = ", ".join(f"{short_label(one.field)} → **{spoken(one)}**" for one in draft.edited)
    effect = what_it_does(draft.before.plan, draft.plan)
    named = plain(in_words(draft.followed))
    told = f":material/subdirectory_arrow_right: {led} changed {count}: {named}. {effect}"
    with telling("followed", told, "What changed", draft.followed):
        st.button(
            "Take it back", on_click=session.take_back, icon=":material/undo:", key="take-back"
        )


def offer(draft: Draft) -> bool:
    """Settings that would usually follow the last edit, and stay, since the link chose them.

    Returns:
        Whether there are any, and the page says so.
    """
    other = drafts.offered(draft)
    if other is None:
        return False
    changes = differences(draft.values, other.values)
    led = ", ".join(f"{short_label(one.field)} → **{spoken(one)}**" for one in draft.edited)
    usual = read_count(len(changes), "other setting")
    effect = what_it_does(draft.plan, other.plan)
    told = f":material/help: With {led}, {usual} would usually be different. What was chosen stays."
    with telling("offered", f"{told} {effect}", "What would change", changes):
        st.button(
            "Let them follow",
            on_click=session.take_offer,
            icon=":material/subdirectory_arrow_right:",
            key="take-offer",
        )
    return True


NAMED = 3
"""Settings that a sentence names with their values; the table has all."""


def in_words(changes: Sequence[Change]) -> str:
    """The first few settings with what they were and are, and how many more there are."""
    telling = sorted(changes, key=lambda one: one.field.endswith("_version"))
    first = [
        f"{short_label(one.field)} {spoken(one, 'before')} → {spoken(one)}"
        for one in telling[:NAMED]
    ]
    more = [f"{len(changes) - NAMED} more"] if len(changes) > NAMED else []
    return ", ".join([*first, *more])


@contextmanager
def telling(key: str, told: str, title: str, changes: Collection[Change]) -> Iterator[None]:
    """What settings do in a sentence, each of them behind a button, and what is drawn beside it."""
    rows = [(short_label(one.field), spoken(one, "before"), spoken(one)) for one in changes]
    table = pd.DataFrame(rows, columns=["Setting", "Before", "Now"])
    with st.container(border=True, key=key):
        st.markdown(told)
        with st.container(horizontal=True):
            with st.popover(title, icon=":material/list:"):
                alt = "Settings that changed, with their values before and now"
                text_table(table, f"{key}-table", alt)
            yield


def spoken(change: Change, which: Literal["before", "after"] = "after") -> str:
    """A value as its list of choices shows it."""
    return choice(change.field, getattr(change, which))


def what_it_does(before: Plan | None, after: Plan | None) -> str:
    """Memory, time and money before and after, where there are plans to compare and they run."""
    if before is None or after is None:
        return ""
    now = compute.shown(after)  # first: the plan before is counted from its dry run
    told = plain(old_and_new(compute.shown(before), now, session.read))
    if (compute.counted_from(before) is None) is (compute.counted_from(after) is None):
        return told
    return f"{told} One of the two peaks is a dry run's, the other the closed form's."


def _list(problems: tuple[Problem, ...]) -> None:
    st.markdown("\n".join(f"- {_problem(problem)}" for problem in problems))


def _problem(problem: Problem) -> str:
    """What is wrong and what to do, led by the input's label.

    Of a link's key that is no field the sentence keeps to keys, since those are what to correct.
    """
    field, rest = problem.field, said(problem.fix, problem.field)
    if field not in Plan.model_fields:
        if field == LINK:
            return f"{said(problem.message)} {rest}"
        led = "" if problem.message.startswith(field) else f"{plain(field)}: "
        return f"{led}{plain(problem.message)} {plain(problem.fix)}"
    group = next((f" (under {g.title})" for g in GROUPS if field in g.fields), "")
    whole = said(problem.message, field)
    message = whole.removeprefix(f"“{short_label(field)}” ").removeprefix(f"{field} ")
    colon = ":" if message == whole else ""
    return f"**{short_label(field)}**{group}{colon} {message} {rest}"
