"""One trial's folder, and where they all are while they run. No torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from planner.jobs.folder import JobFolder
from planner.jobs.storage import data_folder
from planner.jobs.strict import shown
from planner.trial.ask.request import TrialRequest, read_request
from planner.trial.ask.result import TrialResult, read_result

HISTORY_SETTING = "HEADROOM_HISTORY_URL"
HISTORY_FILE = "trials.sqlite"


def has_history() -> bool:
    """Whether a history may hold trials: a database is named, or there is its file."""
    named = os.environ.get(HISTORY_SETTING, "").strip()
    return bool(named) or (data_folder() / HISTORY_FILE).exists()


@dataclass(frozen=True, slots=True)
class TrialFolder(JobFolder[TrialRequest, TrialResult]):
    """One trial's files."""

    def request(self) -> TrialRequest:
        """What was asked."""
        return read_request((self.path / "request.json").read_text("utf-8"))

    def result(self) -> TrialResult | None:
        """How it ended; None while it runs."""
        return self.found(read_result)

    def ended(self, status: Any, reason: str, seconds: float) -> TrialResult:
        """Finish a trial in its worker's place, with what that had found out until then."""
        asked = self.request().asked(self.identifier)
        last = {
            "status": status,
            "reason": shown(reason, 2000),
            "seconds": max(seconds, 0.0),
            "stderr_tail": self.stderr_tail(),
            "extrapolated": False,
            "measured": None,
        }
        try:
            result = TrialResult.model_validate_json(to_json({**asked, **self.known(), **last}))
        except ValueError:  # what the worker left is damaged
            result = TrialResult.model_validate_json(to_json({**asked, **last}))
        return self.settled(result)
