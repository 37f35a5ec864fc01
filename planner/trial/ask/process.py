"""Trials as an app sees them: start one, look at all of them, stop one. No torch.

A trial belongs to a process of its own and to its folder, not to whoever started it: closing a
page does not end it, and an app that starts anew finds it again.
"""

from __future__ import annotations

from planner.jobs.processes import Jobs, children
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.result import TrialResult


def _command(request: TrialRequest) -> tuple[str, ...]:
    return "trial", request.plan, "--json"


def _lost(folder: TrialFolder) -> TrialResult:
    if folder.request().ray:  # its job goes on without it
        from planner.trial.cluster.dispatch import abandon

        ends = abandon(folder)
        children[f"{folder.identifier} is ended by {ends.pid}"] = ends
    return folder.lost()


TRIALS = Jobs("trials", TrialFolder, _command, _lost)
