"""A result's way past a full disk: into the memory of the supervisor, which prints it. No torch.

The supervisor holds a file that is in no folder, and its worker writes there what it cannot write
to the trial's own folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from planner.trial.ask.result import TrialResult, read_result, result_json

SETTING = "HEADROOM_TRIAL_SPARE"
"""Environment variable that tells a worker where its supervisor's memory is."""


class Spare:
    """A file in memory; on a system without such files it stays empty."""

    def __init__(self) -> None:
        create = getattr(os, "memfd_create", None)
        self._handle: int | None = create("result") if create else None

    @property
    def path(self) -> str:
        """Where the worker finds it; empty where it cannot."""
        return "" if self._handle is None else f"/proc/{os.getpid()}/fd/{self._handle}"

    def result(self) -> TrialResult | None:
        """What the worker left; None without anything."""
        try:
            return read_result(Path(self.path).read_bytes()) if self.path else None
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Give the memory back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def hand_over(result: TrialResult) -> bool:
    """Leave a result with the supervisor; False where this process has none."""
    path = os.environ.get(SETTING)
    try:
        return bool(path and Path(path).write_text(result_json(result), "utf-8"))
    except OSError:
        return False
