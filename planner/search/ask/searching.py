"""A search as a page sees it: begun, how far it is, its answer, given up.

All searches of an app share two kept processes and take turns; none of them runs in the app's own.
"""

from __future__ import annotations

import subprocess
import threading
import time
from typing import Any

from planner.background import Background
from planner.plan import Plan
from planner.search.ask.pipe import Closed, receive, send, waits
from planner.search.ask.worker import started
from planner.search.found import Found
from planner.search.wish import Wish
from planner.speeds import Speeds

POLL_SECONDS = 0.05
LIMIT_SECONDS = 300.0


class Port:
    """The kept processes, one search at a time."""

    def __init__(self) -> None:
        """Nothing is started before somebody asks."""
        self.turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def alive(self) -> Any:
        """The process, started where there is none."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = started()
        return self._process

    def warm(self) -> None:
        """Start the processes before somebody asks; what they import takes a second."""
        if self.turn.acquire(blocking=False):
            try:
                self.alive()
            finally:
                self.turn.release()

    def close(self) -> None:
        """End the process; its helper ends with it."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


PORT = Port()


class Searching(Background):
    """One search, begun at once. When ``running`` is False nothing changes any more.

    Then ``found`` is the answer, or ``given_up`` is True, or ``error`` is a sentence.
    """

    failed = "The search failed"

    def __init__(
        self, plan: Plan, wish: Wish, speeds: Speeds | None = None, port: Port = PORT
    ) -> None:
        """Begins; nothing of it is done in this process."""
        self.found: Found | None = None
        self.doing, self.share = "Waiting for its turn", 0.0
        self._asked = ("search", plan, wish, speeds)
        self._port = port
        super().__init__()

    def _work(self) -> None:
        while not self._port.turn.acquire(timeout=POLL_SECONDS):
            if self.cancelling:
                self.given_up = True
                return
        try:
            self._ask()
        except Closed:
            self._port.close()
            self.error = "The search's process ended without an answer; ask again."
        finally:
            self._port.turn.release()

    def _ask(self) -> None:
        process = self._port.alive()
        send(process.stdin, self._asked)
        told, began = False, time.monotonic()
        while True:
            if self.cancelling and not told:
                told = True
                send(process.stdin, ("give up",))
            if time.monotonic() - began > LIMIT_SECONDS:
                self._port.close()
                self.error = f"The search took more than {LIMIT_SECONDS:.0f} s; it was ended."
                return
            if not waits(process.stdout, POLL_SECONDS):
                continue
            kind, value = receive(process.stdout)
            if kind == "progress":
                self.doing, self.share = value
                continue
            self.found = value if kind == "found" else None
            self.given_up = kind == "given up"
            self.error = value if kind in ("refused", "failed") else ""
            return
