"""A search as a page sees it: begun, how far it is, its answer, given up; cards mended alike.

None of it runs in the app's own process. Searches run beside each other, each in two kept
processes (:class:`planner.search.ask.port.Port`), and share the machine; one whose page has gone
is given up.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from planner.advice.cards import Choice
from planner.background import Background
from planner.plan import Plan
from planner.search.ask.pipe import Closed, receive, send, waits
from planner.search.ask.port import POLL_SECONDS, PORT, Port
from planner.search.ask.worker import ended
from planner.search.found import Found
from planner.search.wish import Wish
from planner.speeds import Speeds
from planner.trial.evidence.stated_error import Compared

SILENT_SECONDS = 300.0
"""A search that says nothing for so long is ended."""
GONE_SECONDS = 5.0
"""A page may be away for so long, as when its connection breaks, before its search is given up."""


class _Left(Exception):
    """Somebody gave up while the search waited for its turn."""


class Asking(Background):
    """One request, begun at once. When ``running`` is False nothing changes any more.

    Then ``answer`` is what was found, or ``given_up`` is True, or ``error`` is a sentence.
    ``abandoned`` tells that it was given up since its page had gone.
    """

    failed = "The search failed"
    given_up_by = (_Left,)

    def __init__(self, asked: tuple[Any, ...], attended: Callable[[], bool], port: Port) -> None:
        """Begins; nothing of it is done in this process.

        ``attended`` tells whether the page that asks is still there.
        """
        self.answer: Any = None
        self.doing, self.share = "Starting", 0.0
        self.abandoned = False
        self.took_seconds = 0.0
        self._asked = asked
        self._attended, self._seen = attended, time.monotonic()
        self._port = port
        super().__init__()

    def _work(self) -> None:
        try:
            with self._port.pair(self._wait) as process:
                self._ask(process)
        except Closed:
            self.error = "The search process ended without an answer; try again."
        self.took_seconds = self.elapsed_seconds

    def _wait(self, place: int) -> None:
        self.doing = f"Waiting, number {place} in line"
        if not self._wanted():
            raise _Left

    def _wanted(self) -> bool:
        now = time.monotonic()
        if self._attended():
            self._seen = now
        if now - self._seen > GONE_SECONDS and not self.cancelling:
            self.abandoned = True
            self.cancel()
        return not self.cancelling

    def _ask(self, process: subprocess.Popen[bytes]) -> None:
        asked: Any = process.stdin
        answers: Any = process.stdout
        try:
            send(asked, self._asked)
            self._listen(asked, answers)
        except (Closed, TimeoutError) as error:
            ended(process)
            if isinstance(error, Closed):
                raise
            self.error = f"The search did not respond for {SILENT_SECONDS:.0f} s and was stopped."

    def _listen(self, asked: Any, answers: Any) -> None:
        told, heard = False, time.monotonic()
        while True:
            if not self._wanted() and not told:
                told = True
                send(asked, ("give up",))
            if time.monotonic() - heard > SILENT_SECONDS:
                raise TimeoutError
            if not waits(answers, POLL_SECONDS):
                continue
            kind, value = receive(answers)
            heard = time.monotonic()
            if kind == "progress":
                self.doing, self.share = value
                continue
            self.answer = value if kind == "found" else None
            self.given_up = kind == "given up"
            self.error = value if kind in ("refused", "failed") else ""
            return


class Searching(Asking):
    """A search for the plans that meet a wish."""

    def __init__(
        self,
        plan: Plan,
        wish: Wish,
        speeds: Speeds | None = None,
        attended: Callable[[], bool] = lambda: True,
        port: Port = PORT,
    ) -> None:
        """Begins; the arguments are those of :func:`planner.search.search`."""
        super().__init__(("search", plan, wish, speeds), attended, port)

    @property
    def found(self) -> Found | None:
        """The answer, once there is one."""
        found: Found | None = self.answer
        return found


class Mending(Asking):
    """Cards on which a plan does not fit, each mended (:func:`planner.advice.cards.mended`)."""

    def __init__(
        self,
        plan: Plan,
        choices: Sequence[Choice],
        speeds: Speeds | None = None,
        known: Sequence[Compared] = (),
        attended: Callable[[], bool] = lambda: True,
        port: Port = PORT,
    ) -> None:
        """Begins; ``known`` are measured errors that plans are judged by."""
        self.plan = plan
        super().__init__(("mend", plan, choices, speeds, known), attended, port)

    @property
    def found(self) -> tuple[Choice, ...] | None:
        """The mended choices, once they are known."""
        found: tuple[Choice, ...] | None = self.answer
        return found
