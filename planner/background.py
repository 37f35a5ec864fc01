"""Work that another process does while a page looks at it: begun, looked at, given up.

A thread that waits for it has no page to write on, so what it comes to is kept here.
"""

from __future__ import annotations

import threading
import time


class Refused(Exception):
    """There is no answer; the message is a sentence for people."""


class GivenUp(Exception):
    """Nobody waits for it any more."""


class Background:
    """One piece of work in a thread.

    Once ``running`` is False nothing changes any more; ``error`` and ``given_up`` say how it ended
    where it has no result.
    """

    failed = "It failed"
    """Begins the sentence about an error that nobody foresaw."""

    def __init__(self) -> None:
        """Keep what the work needs first: the thread begins here."""
        self.error = ""
        self.given_up = False
        self._started = time.monotonic()
        self._cancel = threading.Event()
        self._over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

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

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end; whether it came."""
        return self._over.wait(seconds)

    def _work(self) -> None:
        raise NotImplementedError

    def _after_giving_up(self) -> None:
        """What is to be done then, once nobody waits."""

    def _run(self) -> None:
        try:
            self._work()
        except GivenUp:
            self.given_up = True
        except Refused as error:
            self.error = str(error)
        except Exception as error:  # a page that waits must hear of any end
            self.error = f"{self.failed}: {type(error).__name__}: {error}."
        finally:
            self._over.set()
        if self.given_up:
            self._after_giving_up()
