"""Runs as an app sees them: start one, look at all of them, stop, go on, forget. No torch.

A run belongs to a process of its own and to its folder, as a trial does: closing a page does not
end it, and an app that starts anew finds it again.
"""

from __future__ import annotations

from planner.jobs.processes import Jobs
from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.store import SamplingFolder


def _command(_: SamplingRequest) -> tuple[str, ...]:
    return "sampling", "run"


RUNS = Jobs("sampling", SamplingFolder, _command, SamplingFolder.lost)


def reopen(folder: SamplingFolder) -> None:
    """Take the end off a run, so that it can go on with what it has.

    Raises:
        ValueError: while it runs, and when it has completed.
    """
    state = RUNS.look(folder)
    if state is None or state.running:
        raise ValueError("resume: this run goes on already.")
    if state.result is not None and state.result.status == "completed":
        raise ValueError("resume: this run is completed; its weights are there.")
    for name in ("result.json", "stop", "owner.json"):
        (folder.path / name).unlink(missing_ok=True)


def resume(folder: SamplingFolder) -> None:
    """Go on with a run that was ended; nothing that it has written is computed again."""
    reopen(folder)
    RUNS.begin(folder)
