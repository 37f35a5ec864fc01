"""A visitor's search and the dry runs of what it found; imports no page.

Session key, set here only: ``recommend asked`` is the visitor's last :class:`Asked`. What it was
asked is in the address as well (``wish`` of :mod:`planner.ui.state.session`), so that a link asks
it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import streamlit as st

from planner.dryrun.ask.answer import DryRun
from planner.plan import Plan
from planner.plan.query import WISH
from planner.search import Found, Recommendation, Wish
from planner.search.ask import WORKERS, Searching
from planner.search.check import checked, lead
from planner.search.wish import from_text, to_text
from planner.ui.dry_run import known
from planner.ui.dry_run.job import Job
from planner.ui.state import session

ASKED = "recommend asked"


@dataclass(slots=True)
class Asked:
    """One search, and the dry runs of the plans that it found.

    ``by_hand`` tells whether somebody pressed the button: no link starts a dry run.
    """

    plan: Plan
    wish: Wish
    searching: Searching
    by_hand: bool
    jobs: dict[Plan, Job] = field(default_factory=dict)
    stored: dict[Plan, DryRun | None] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether the page has something to wait for."""
        return self.searching.running or any(job.running for job in self.jobs.values())

    def state(self) -> tuple[object, ...]:
        """What a page compares to know that something began or ended."""
        jobs = tuple(job.running for job in self.jobs.values())
        return id(self), self.searching.running, jobs

    def check(self, plan: Plan) -> None:
        """Begin a plan's dry run, unless it is on its way or known."""
        job = self.jobs.get(plan)
        if (job is None or not (job.running or job.found)) and self.result(plan) is None:
            self.jobs[plan] = Job(known.port(), plan)

    def result(self, plan: Plan) -> DryRun | None:
        """A plan's dry run: just executed, or stored from before."""
        job = self.jobs.get(plan)
        if job is not None and job.found is not None:
            return job.found
        if plan not in self.stored:
            self.stored[plan] = known.remembered(plan)
        return self.stored[plan]

    def recommended(self) -> tuple[Recommendation, ...]:
        """The three plans, each held against its dry run where that is known."""
        found = self.searching.found
        results = [(one, self.result(one.plan)) for one in (found.recommendations if found else ())]
        return tuple(one if dry is None else checked(one, dry) for one, dry in results)

    def follow_up(self) -> None:
        """After a press the plan to take is checked; where that demotes it, so is the next."""
        recommended = self.recommended()
        if self.by_hand and recommended:
            first = lead(recommended)
            if first.checked == "unchecked" and first.plan not in self.jobs:
                self.check(first.plan)

    def end(self) -> None:
        """Give up whatever is on its way."""
        self.searching.cancel()
        for job in self.jobs.values():
            if job.running:
                job.cancel()


def current(plan: Plan) -> Asked | None:
    """The search on the page; begun where a link asks for one."""
    text = session.wish()
    asked = _kept()
    if asked is not None and to_text(asked.wish) == text:
        return _begin(asked.plan, asked.wish, asked.by_hand) if asked.searching.abandoned else asked
    if asked is not None:
        asked.end()
        st.session_state.pop(ASKED)
    return _begin(plan, from_text(text), False) if text else None


def warm() -> None:
    """Whoever opens the page will ask: the processes begin meanwhile."""
    WORKERS.warm()


def ask(plan: Plan, wish: Wish) -> None:
    """Somebody pressed: search from this plan; what was on its way is given up."""
    asked = _kept()
    if asked is not None:
        asked.end()
    _begin(plan, wish, True)
    session.carry(WISH, to_text(wish))


def of_plan(plan: Plan) -> Found | None:
    """What this visitor's search found from a plan, or that recommends it, checked as far as known.

    None where nobody searched, or from another plan.
    """
    mine = _kept()
    found = mine.searching.found if mine is not None else None
    if mine is None or found is None:
        return None
    known = replace(found, recommendations=mine.recommended())
    return known if plan in (found.plan, *(one.plan for one in found.recommendations)) else None


def _begin(plan: Plan, wish: Wish, by_hand: bool) -> Asked:
    searching = Searching(plan, wish, session.speeds(), session.attended())
    asked = Asked(plan, wish, searching, by_hand)
    st.session_state[ASKED] = asked
    return asked


def _kept() -> Asked | None:
    return cast("Asked | None", st.session_state.get(ASKED))
