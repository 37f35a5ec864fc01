"""The kept processes of an app's searches: two for each of a few at once, a line for the rest."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from planner.search.ask.worker import ended, started

MOST_AT_ONCE = 4
"""Searches beside each other. A pair of processes holds 0.1 GB at rest, 0.2 to 0.8 searching."""
POLL_SECONDS = 0.05


class Port:
    """Pairs of processes, each of which has one search at a time; they share the machine.

    One pair is kept for whoever asks next; further ones end with their search.
    """

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        """Nothing is started before somebody asks."""
        self._most, self._searching = most, 0
        self._idle: list[subprocess.Popen[bytes]] = []
        self._line: list[object] = []
        self._changed = threading.Condition()

    def alive(self) -> subprocess.Popen[bytes]:
        """A pair that nobody uses, started where there is none."""
        with self._changed:
            self._idle.append(self._taken())
            return self._idle[-1]

    def warm(self) -> None:
        """Start a pair before somebody asks; what it imports takes a second."""
        with self._changed:
            if not self._searching:
                self.alive()

    def close(self) -> None:
        """End the pairs that nobody uses."""
        with self._changed:
            while self._idle:
                ended(self._idle.pop())

    @contextmanager
    def pair(self, waits: Callable[[int], None]) -> Iterator[subprocess.Popen[bytes]]:
        """A pair for one search, once it is its turn.

        Args:
            waits: told again and again its place in the line, from 1; may raise to leave it.
        """
        with self._changed:
            self._wait(waits)
            process = self._taken()
            self._searching += 1
        try:
            yield process
        finally:
            with self._changed:
                self._searching -= 1
                if self._idle or process.poll() is not None:
                    ended(process)
                else:
                    self._idle.append(process)
                self._changed.notify_all()

    def _wait(self, waits: Callable[[int], None]) -> None:
        mine = object()
        self._line.append(mine)
        try:
            while (place := self._line.index(mine) + 1) + self._searching > self._most:
                waits(place)
                self._changed.wait(POLL_SECONDS)
        finally:
            self._line.remove(mine)

    def _taken(self) -> subprocess.Popen[bytes]:
        """A pair that lives, out of those that nobody uses."""
        while self._idle:
            process = self._idle.pop()
            if process.poll() is None:
                return process
            ended(process)
        return started()


PORT = Port()
