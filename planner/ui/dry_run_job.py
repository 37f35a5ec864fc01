"""A dry run in a background thread: a page starts it, looks at it, or gives it up.

Imports no Streamlit: a thread has no page to write on. Nothing here loads torch either;
the port asks a process of its own.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.port import Cancelled, DryRunError
from planner.plan import Plan

FILE = "headroom-snapshot.pickle"


class Asked(Protocol):
    """What a job needs of :class:`planner.dryrun.ask.port.Port`."""

    def run(
        self,
        plan: Plan,
        *,
        snapshot: Path | None = None,
        cancelled: Callable[[], bool] = ...,
    ) -> DryRun:
        """The dry run of a plan."""
        ...

    def remembered(self, plan: Plan) -> DryRun | None:
        """The stored answer, if there is one."""
        ...

    def warm_up(self) -> None:
        """Start the process, so that its imports are over when somebody asks."""
        ...


class Job:
    """One dry run, from the press of the button to an answer, a sentence, or nothing.

    Once ``running`` is False nothing changes any more. Then exactly one of ``found``,
    ``error`` and ``given_up`` says how it ended.
    """

    def __init__(self, port: Asked, plan: Plan, *, with_snapshot: bool = False) -> None:
        self.plan = plan
        self.with_snapshot = with_snapshot
        self.found: DryRun | None = None
        self.snapshot: bytes = b""
        self.error = ""
        self.given_up = False
        self._port = port
        self._started = time.monotonic()
        self._cancel = threading.Event()
        self._over = threading.Event()
        threading.Thread(target=self._work, name="dry run", daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether it is still on its way."""
        return not self._over.is_set()

    @property
    def elapsed_seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    @property
    def cancelling(self) -> bool:
        """Somebody gave up; the process is being ended."""
        return self._cancel.is_set()

    def cancel(self) -> None:
        """Give up."""
        self._cancel.set()

    def _work(self) -> None:
        try:
            if self.with_snapshot:
                with tempfile.TemporaryDirectory() as folder:
                    file = Path(folder) / FILE
                    self.found = self._run(file)
                    self.snapshot = file.read_bytes()
            else:
                self.found = self._run(None)
        except Cancelled:
            self.given_up = True
        except DryRunError as error:
            self.error = str(error)
        except Exception as error:  # a page that waits must hear of any end
            self.error = f"The dry run could not be read: {type(error).__name__}: {error}."
        finally:
            self._over.set()
        if self.given_up:
            self._port.warm_up()  # the next press should not pay for the imports

    def _run(self, snapshot: Path | None) -> DryRun:
        return self._port.run(self.plan, snapshot=snapshot, cancelled=self._cancel.is_set)
