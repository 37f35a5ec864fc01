"""A search as a page sees it: begun, how far it is, its answer, given up; cards mended alike.

None of it runs in the app's own process. Searches run beside each other, each in two kept
processes, and share the machine; one whose page has gone is given up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from planner.advice.cards import Choice
from planner.background import Background
from planner.jobs.worker import Workers
from planner.plan import Plan
from planner.search.ask.worker import begun
from planner.search.found import Found
from planner.search.wish import Wish
from planner.speeds import Speeds
from planner.trial.evidence.stated_error import Compared

MOST_AT_ONCE = 4
"""Searches beside each other. A pair of processes holds 0.1 GB at rest, 0.2 to 0.8 searching."""
GONE_SECONDS = 5.0
"""A page may be away for so long, as when its connection breaks, before its search is given up."""
WORKERS = Workers(begun, MOST_AT_ONCE)


class Asking(Background):
    """One request, begun at once. When ``running`` is False nothing changes any more.

    Then ``answer`` is what was found, or ``given_up`` is True, or ``error`` is a sentence.
    ``abandoned`` tells that it was given up since its page had gone.
    """

    failed = "The search failed"

    def __init__(
        self, asked: tuple[Any, ...], attended: Callable[[], bool], workers: Workers
    ) -> None:
        """Begins; nothing of it is done in this process.

        ``attended`` tells whether the page that asks is still there.
        """
        self.answer: Any = None
        self.doing, self.share = "Starting", 0.0
        self.abandoned = False
        self.took_seconds = 0.0
        self._asked = asked
        self._attended, self._seen = attended, time.monotonic()
        self._workers = workers
        super().__init__()

    def _work(self) -> None:
        ask = self._workers.ask
        self.answer = ask(self._asked, self._unwanted, self._told, self._waits)
        self.took_seconds = self.elapsed_seconds

    def _told(self, progress: tuple[str, float]) -> None:
        self.doing, self.share = progress

    def _waits(self, place: int) -> None:
        self.doing = f"Waiting, number {place} in line"

    def _unwanted(self) -> bool:
        now = time.monotonic()
        if self._attended():
            self._seen = now
        if now - self._seen > GONE_SECONDS and not self.cancelling:
            self.abandoned = True
            self.cancel()
        return self.cancelling

    def _after_giving_up(self) -> None:
        self._workers.warm()  # the next one should not pay for the imports


class Searching(Asking):
    """A search for the plans that meet a wish."""

    def __init__(
        self,
        plan: Plan,
        wish: Wish,
        speeds: Speeds | None = None,
        attended: Callable[[], bool] = lambda: True,
        workers: Workers = WORKERS,
    ) -> None:
        """Begins; the arguments are those of :func:`planner.search.search`."""
        super().__init__(("search", plan, wish, speeds), attended, workers)

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
        workers: Workers = WORKERS,
    ) -> None:
        """Begins; ``known`` are measured errors that plans are judged by."""
        self.plan = plan
        super().__init__(("mend", plan, choices, speeds, known), attended, workers)

    @property
    def found(self) -> tuple[Choice, ...] | None:
        """The mended choices, once they are known."""
        found: tuple[Choice, ...] | None = self.answer
        return found
