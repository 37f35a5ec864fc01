"""Where trials are kept while they run: a job's folder each, with a result that is not lost.

``reserve`` holds the result's place on the disk until there is one, so that a disk that fills
meanwhile does not lose it. No torch.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from planner.jobs.folder import JobFolder
from planner.jobs.processes import Jobs
from planner.jobs.storage import data_folder, write_whole
from planner.jobs.strict import shown
from planner.trial.ask.request import TrialRequest, read_request
from planner.trial.ask.result import TrialResult, read_result, result_json
from planner.trial.ask.spare import hand_over

RESERVE, RESERVE_BYTES = "reserve", 2**20
"""A result with every term of every phase is far smaller."""
HISTORY_SETTING = "HEADROOM_HISTORY_URL"
HISTORY_FILE = "trials.sqlite"


def has_history() -> bool:
    """Whether a history may hold trials: a database is named, or there is its file."""
    named = os.environ.get(HISTORY_SETTING, "").strip()
    return bool(named) or (data_folder() / HISTORY_FILE).exists()


@dataclass(frozen=True, slots=True)
class TrialFolder(JobFolder):
    """One trial's files."""

    def request(self) -> TrialRequest:
        """What was asked.

        Raises:
            ValueError: when the file is damaged.
            OSError: when it is not there.
        """
        return read_request((self.path / "request.json").read_text("utf-8"))

    def result(self) -> TrialResult | None:
        """How it ended; None while it runs.

        Raises:
            ValueError: when the file is damaged.
        """
        try:
            return read_result(self.result_file.read_bytes())
        except FileNotFoundError:
            return None

    def reserve(self) -> None:
        """Keep room on the disk for the result, until there is one.

        Raises:
            OSError: when there is none.
        """
        (self.path / RESERVE).write_bytes(os.urandom(RESERVE_BYTES))

    def finish(self, result: TrialResult) -> bool:
        """Write the result, once: whoever is first decides how the trial ended.

        Raises:
            OSError: when it cannot be written, not even in the place that was kept for it.
        """
        text = result_json(result) + "\n"
        for last in (False, True):
            try:
                write_whole(self.result_file, text, place=os.link)
                return True
            except FileExistsError:
                return False
            except OSError:
                if last:
                    raise
            finally:  # its place is the result's now
                with suppress(OSError):
                    (self.path / RESERVE).unlink()
        return False

    def settled(self, result: TrialResult) -> TrialResult:
        """What the trial ended with: this result, unless somebody was faster.

        One that cannot be written goes to the process that waits for it, and says what is lost.
        """
        try:
            return result if self.finish(result) else self.result() or result
        except OSError as error:
            if hand_over(result):
                return result
            why = shown(error.strerror or str(error), 200)
            note = (
                f"This result is not stored: {shown(str(self.path), 500)} cannot be written "
                f"({why}), so no list of trials will show it. Keep this output; then free some "
                "space, or set HEADROOM_DATA to a folder on another disk."
            )
            return result.model_copy(update={"notes": (*result.notes, note)})

    def amend(self, result: TrialResult) -> None:
        """Put a fuller result in the place of the one that is there."""
        write_whole(self.result_file, result_json(result) + "\n")


TRIALS = Jobs("trials", TrialFolder)
trials_folder, folders, new_folder = TRIALS.place, TRIALS.all, TRIALS.new
