"""Trials of this machine, found again by whoever opens the page. Imports no Streamlit.

Folders are looked at by their files first: a page that looks every second does not read every
result that there ever was.
"""

from __future__ import annotations

import json
from pathlib import Path

from planner.jobs.processes import JobState
from planner.plan import Plan
from planner.plan.query import to_query_string
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import SNAPSHOT, TrialRequest
from planner.trial.ask.result import TrialResult

NEWEST = 200
"""Folders in which a plan's last trial is looked for."""


def under_way() -> list[JobState[TrialRequest, TrialResult]]:
    """Trials that run or wait, those that began first in front."""
    found = (TRIALS.look(one) for one in TRIALS.all() if not one.result_file.exists())
    states = [one for one in found if one is not None and one.running]
    return sorted(states, key=lambda state: (state.stage == "queued", state.identifier))


def newest_of(plan: Plan) -> TrialResult | None:
    """The last trial of a plan that is over; None without one."""
    link = to_query_string(plan)
    for folder in TRIALS.all()[:NEWEST]:
        if folder.result_file.exists() and _plan_of(folder) == link:
            state = TRIALS.look(folder)
            if state is not None and state.result is not None:
                return state.result
    return None


def allocations_of(identifier: str) -> Path | None:
    """The file of a trial's allocations, if it was asked for and is on this machine."""
    folder = TRIALS.find(identifier)
    file = None if folder is None else folder.path / SNAPSHOT
    return file if file is not None and file.is_file() else None


def _plan_of(folder: TrialFolder) -> str:
    try:
        asked = json.loads((folder.path / "request.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    found = asked.get("plan") if isinstance(asked, dict) else None
    return found if isinstance(found, str) else ""
