"""Trials of this machine, found again by whoever opens the page. Imports no Streamlit.

Folders are looked at by their files first: a page that looks every second does not read every
result that there ever was.
"""

from __future__ import annotations

import json
from pathlib import Path

from planner.plan import Plan
from planner.plan.query import to_query_string
from planner.trial.ask import process
from planner.trial.ask.folders import TrialFolder, folders
from planner.trial.ask.process import TrialState
from planner.trial.ask.request import SNAPSHOT
from planner.trial.ask.result import TrialResult

NEWEST = 200
"""Folders in which a plan's last trial is looked for."""


def under_way() -> list[TrialState]:
    """Trials that run or wait, those that began first in front."""
    found = (process.look(one) for one in folders() if not one.result_file.exists())
    states = [one for one in found if one is not None and one.stage != "finished"]
    return sorted(states, key=lambda state: (state.stage == "queued", state.identifier))


def newest_of(plan: Plan) -> TrialResult | None:
    """The last trial of a plan that is over; None without one."""
    link = to_query_string(plan)
    for folder in folders()[:NEWEST]:
        if folder.result_file.exists() and _plan_of(folder) == link:
            state = process.look(folder)
            if state is not None and state.result is not None:
                return state.result
    return None


def allocations_of(identifier: str) -> Path | None:
    """The file of a trial's allocations, if it was asked for and is on this machine."""
    folder = process.find(identifier)
    file = None if folder is None else folder.path / SNAPSHOT
    return file if file is not None and file.is_file() else None


def _plan_of(folder: TrialFolder) -> str:
    try:
        asked = json.loads((folder.path / "request.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    found = asked.get("plan") if isinstance(asked, dict) else None
    return found if isinstance(found, str) else ""
