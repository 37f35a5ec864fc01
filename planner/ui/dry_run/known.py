"""The dry run of a plan, if this visitor ran it or somebody stored it.

Session keys, set here only: ``dry run known`` is by plan what was known of its job when it was
asked for, and its answer; ``dry run counted`` is the last dry run that led. ``dry run job`` is the
section's.
"""

from __future__ import annotations

from typing import cast

import streamlit as st

from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.counted import counts
from planner.dryrun.ask.port import Port
from planner.plan import Plan
from planner.trial.evidence.stated_error import Compared, stated_of
from planner.ui.dry_run.job import Job
from planner.ui.watching import state

JOB = "dry run job"
KNOWN = "dry run known"
COUNTED = "dry run counted"
MOST = 8
"""Plans of which the answer is kept: those that a visitor goes to and fro between."""


@st.cache_resource(show_spinner=False)
def port() -> Port:
    """The server's one way to its dry-run process."""
    return Port()


def job() -> Job | None:
    """The visitor's last one."""
    return cast("Job | None", st.session_state.get(JOB))


def dry_run(plan: Plan, own: tuple[Compared, ...]) -> DryRun | None:
    """The plan's answer with its stated error; None without one.

    An answer that is on the page stays there while the step runs again for a snapshot.
    """
    last = job()
    kept = st.session_state.setdefault(KNOWN, {})
    before, found = kept.get(plan, (None, None))
    if found is None and before != state(last):
        mine = last if last is not None and last.plan == plan else None
        # What is not found while it runs is not stored either.
        made = remembered(plan) if mine is None else mine.found
        found = None if made is None else stated_of(made, own)
        kept[plan] = state(last), found
        for old in [*kept][:-MOST]:
            del kept[old]
    return cast("DryRun | None", found)


def counted_from(plan: Plan, own: tuple[Compared, ...]) -> DryRun | None:
    """The dry run that a plan's figures are counted from; None where the closed form stands alone.

    The plan's own; else the last one of this visit that led, of which the plan is an edit.
    """
    found = dry_run(plan, own) or cast("DryRun | None", st.session_state.get(COUNTED))
    if found is None or not counts(found, plan):
        return None
    st.session_state[COUNTED] = found
    return found


def remembered(plan: Plan) -> DryRun | None:
    """The stored answer; a file that cannot be understood is as good as none."""
    try:
        return port().remembered(plan)
    except (KeyError, TypeError, ValueError):
        return None
