"""The Recommend page: ask, wait or give up, then one verdict and its reasons."""

from __future__ import annotations

import time

import streamlit as st

from planner.comparison import why_not
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.labels import subject
from planner.search import GOALS, Found
from planner.ui import compute
from planner.ui.elements import button, said
from planner.ui.plan import suggested
from planner.ui.recommend import asked, form, front, plans, rest
from planner.ui.recommend.asked import Asked
from planner.ui.recommend.take import turned
from planner.ui.watching import POLL
from planner.wording.display import plain

WAIT_SECONDS = 0.2


def page(plan: Plan) -> None:
    """All of it."""
    turned()
    asked.warm()
    mine = asked.current(plan)
    word = why_not(compute.footprint(plan))
    st.markdown(
        f"Starting from the plan in the sidebar: {plain(subject(plan))} on {plan.gpus:,} × "
        f"{plain(facts_of(plan).gpu.name)} ({word})."
    )
    suggested.notice("recommend")
    form.form(plan, mine is not None and mine.searching.running)
    if mine is None:
        st.caption(
            "You get up to four different plans: conservative, balanced, aggressive, and the knee "
            "of the Pareto front. The recommended plan is then checked with a dry run."
        )
        return
    mine.follow_up()
    seen = mine.state()
    if mine.searching.running:
        st.fragment(_searching, run_every=POLL)(mine, seen)
        return
    _answer(plan, mine)
    _await_dry_runs(mine, seen)


def _await_dry_runs(mine: Asked, seen: tuple[object, ...]) -> None:
    """Wait in the script until a dry run begins or ends, then draw the page again.

    No fragment polls here, because Apply turns the page: a poll that left the browser before that
    would have the browser take the new page's elements for the old page's, and remove them.
    """
    place = st.empty()
    while mine.running and mine.state() == seen:
        time.sleep(WAIT_SECONDS)
        place.empty()  # here a press ends the wait
    if mine.state() != seen:
        st.rerun()


def _searching(mine: Asked, seen: tuple[object, ...]) -> None:
    """Show how far the search is, and Cancel; only this fragment runs again meanwhile."""
    searching = mine.searching
    if mine.state() != seen or not searching.running:
        st.rerun()  # the whole page: something began or ended
    text = f"{searching.doing} … {searching.elapsed_seconds:.0f} s"
    st.progress(min(max(searching.share, 0.0), 1.0), text=plain(text))
    st.button("Cancel", key="wish-cancel", icon=":material/close:", on_click=searching.cancel)


def _answer(plan: Plan, mine: Asked) -> None:
    searching = mine.searching
    found = searching.found
    if found is None:
        if searching.given_up:
            st.caption(":material/close: Canceled.")
        else:
            st.warning(said(searching.error), icon=":material/info:")
        return
    _of_another(plan, found)
    if not found.recommendations:
        rest.misses(plan, found)
    else:
        plans.plans(plan, mine, found)
        front.front(plan, found)
        rest.ties(found)
    rest.left_out(found)


def _of_another(plan: Plan, found: Found) -> None:
    """Whose answer it is, once the plan on the page is another."""
    if plan in (found.plan, *(one.plan for one in found.recommendations)):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            f":material/history: This answer (“{GOALS[found.wish.goal].label}”) is for the plan "
            "before your last change."
        )
        button("Search again", "wish-again", "refresh", asked.ask, plan, found.wish)
