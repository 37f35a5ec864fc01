"""A dry run in the background: a page starts it, looks at it, or gives it up.

Imports no Streamlit, and nothing here loads torch either; the port asks a process of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from planner.background import Background
from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.port import Port
from planner.plan import Plan

FILE = "headroom-snapshot.pickle"


class Job(Background):
    """One dry run, from the press of the button to an answer, a sentence, or nothing.

    Once ``running`` is False one of ``found``, ``error`` and ``given_up`` says how it ended, and
    only one.
    """

    failed = "The dry run could not be read"

    def __init__(self, port: Port, plan: Plan, *, with_snapshot: bool = False) -> None:
        self.plan = plan
        self.with_snapshot = with_snapshot
        self.found: DryRun | None = None
        self.snapshot: bytes = b""
        self._port = port
        super().__init__()

    def _work(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / FILE if self.with_snapshot else None
            self.found = self._port.run(self.plan, snapshot=file, cancelled=self._cancel.is_set)
            self.snapshot = file.read_bytes() if file else b""

    def _after_giving_up(self) -> None:
        self._port.warm_up()  # the next press should not pay for the imports
