"""A dry run in a background thread: a page starts it, looks at it, or gives it up.

Imports no Streamlit: a thread has no page to write on. Nothing here loads torch either;
the port asks a process of its own.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.port import Cancelled, DryRunError, Port
from planner.plan import Plan

FILE = "headroom-snapshot.pickle"


class Job:
    """One dry run, from the press of the button to an answer, a sentence, or nothing.

    Once ``running`` is False nothing changes any more. Then exactly one of ``found``,
    ``error`` and ``given_up`` says how it ended.
    """

    def __init__(self, port: Port, plan: Plan, *, with_snapshot: bool = False) -> None:
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
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / FILE if self.with_snapshot else None
                self.found = self._port.run(
                    self.plan, snapshot=file, cancelled=self._cancel.is_set
                )
                self.snapshot = file.read_bytes() if file else b""
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
