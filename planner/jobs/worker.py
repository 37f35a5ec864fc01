"""Processes of ours that answer questions, one at a time, and are kept for the next question.

Values go over the standard streams: as JSON where a stranger's files may be in the process, else
pickled. :func:`serve` is the process's own side. No torch.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import IO, Any

from planner.background import GivenUp, Refused
from planner.forks.client import PIPE, begin

POLL_SECONDS = 0.05
SILENT_SECONDS = 300.0
"""A process that says nothing for so long is ended."""
Told = Callable[[Any], None]


class Worker:
    """One such process. It is begun at once, and ends when nobody can ask it any more."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str],
        what: str,
        otherwise: str = "try again",
        pickled: bool = False,
    ) -> None:
        """Begin it.

        Args:
            module: of ours, which calls :func:`serve`.
            arguments: of its command line.
            environment: all of its variables.
            what: whose process it is, as a sentence about its end begins.
            otherwise: what to do about that.
            pickled: whether values are pickled.
        """
        self.process = begin(module, *arguments, environment=environment, stdin=PIPE, stdout=PIPE)
        assert self.process.stdin is not None and self.process.stdout is not None
        self._asks = _connection(self.process.stdin, readable=False)
        self._answers = _connection(self.process.stdout, writable=False)
        self._what, self._otherwise, self._pickled = what, otherwise, pickled

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self._asks.closed and self.process.poll() is None

    def ask(self, request: Any, cancelled: Callable[[], bool], told: Told) -> Any:
        """The answer to a request; the process goes on only after an answer.

        Raises:
            Refused: with a sentence, when there is none.
            GivenUp: when ``cancelled`` says so, which is asked again and again.
        """
        over = False
        try:
            self.say(request)
            while not over:
                over, value = self._next(cancelled)
                if not over:
                    told(value)
            return value
        except (EOFError, OSError):
            raise Refused(
                f"{self._what}'s process ended without an answer; {self._otherwise}."
            ) from None
        except Refused:
            over = True
            raise
        finally:
            if not over:
                self.end()

    def _next(self, cancelled: Callable[[], bool]) -> tuple[bool, Any]:
        """What it says next, and whether that is the answer."""
        heard = time.monotonic()
        while not cancelled():
            if self.waits(POLL_SECONDS):
                return self.heard()
            if time.monotonic() - heard > SILENT_SECONDS:
                self.end()
                raise Refused(
                    f"{self._what} did not respond for {SILENT_SECONDS:.0f} s and was stopped."
                )
        raise GivenUp

    def say(self, request: Any) -> None:
        """Ask, and do something else meanwhile; ``OSError`` where nobody reads."""
        self._asks.send_bytes(_written(request, self._pickled))

    def waits(self, seconds: float = 0.0) -> bool:
        """Whether something can be heard within so many seconds."""
        return self._answers.poll(seconds)

    def heard(self) -> tuple[bool, Any]:
        """What it says next, and whether that is the answer.

        Raises:
            Refused: with a sentence, where that is why there is no answer.
            EOFError: when it has ended.
        """
        kind, value = _read(self._answers.recv_bytes(), self._pickled)
        if kind == "refused":
            raise Refused(value)
        return kind == "found", value

    def end(self) -> None:
        """End it, and so whatever it has begun in its own session."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._asks.close()
        self._answers.close()


class Workers:
    """Workers of a kind, each with one question at a time; further questions wait in a line."""

    def __init__(self, begun: Callable[[], Worker], most: int = 1, keeps: int = 1) -> None:
        """Nothing is begun before somebody asks.

        Args:
            begun: begins one.
            most: how many questions are answered at once.
            keeps: how many workers that nobody asks are kept for the next question.
        """
        self._begun, self._most, self._keeps = begun, most, keeps
        self._asked = 0
        self._idle: list[Worker] = []
        self._line: list[object] = []
        self._changed = threading.Condition()

    def ask(
        self,
        request: Any,
        cancelled: Callable[[], bool] = lambda: False,
        told: Told = lambda value: None,
        in_line: Callable[[int], None] = lambda place: None,
    ) -> Any:
        """The answer to a request.

        Args:
            request: what the process is asked.
            cancelled: asked again and again; True gives up.
            told: given what the process says before its answer.
            in_line: told again and again its place in the line, from 1.

        Raises:
            Refused: with a sentence, when there is no answer.
            GivenUp: when ``cancelled`` says so.
        """
        with self._changed:
            self._wait(cancelled, in_line)
            worker = self._taken()
            self._asked += 1
        try:
            return worker.ask(request, cancelled, told)
        finally:
            with self._changed:
                self._asked -= 1
                if worker.alive and len(self._idle) < self._keeps:
                    self._idle.append(worker)
                else:
                    worker.end()
                self._changed.notify_all()

    def _wait(self, cancelled: Callable[[], bool], in_line: Callable[[int], None]) -> None:
        mine = object()
        self._line.append(mine)
        try:
            while (place := self._line.index(mine) + 1) + self._asked > self._most:
                in_line(place)
                if cancelled():
                    raise GivenUp
                self._changed.wait(POLL_SECONDS)
        finally:
            self._line.remove(mine)

    def _taken(self) -> Worker:
        """One that lives, out of those that nobody asks, or a new one."""
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            worker.end()
        return self._begun()

    def warm(self) -> None:
        """Have one that imports before somebody asks."""
        with self._changed:
            if not self._asked:
                self._idle.append(self._taken())

    def close(self) -> None:
        """End those that nobody asks."""
        with self._changed:
            while self._idle:
                self._idle.pop().end()


def serve(
    answer: Callable[[Any, Told], Any],
    failed: str,
    *,
    first: Callable[[], object] = lambda: None,
    rests: Callable[[], object] = lambda: None,
    pickled: bool = False,
    memory_bytes: int = 0,
    idle_seconds: float | None = None,
) -> None:
    """Answer what is asked over the standard streams, until nobody asks any more.

    Args:
        answer: of a request, and of what tells how far it is.
        failed: begins the sentence about an error that nobody foresaw.
        first: what takes seconds and is done once.
        rests: what is done after each answer, while nobody waits.
        pickled: whether values are pickled.
        memory_bytes: of data that the process may hold; 0 is all there is.
        idle_seconds: to end after so long without a question.
    """
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    asked = Connection(os.dup(0), writable=False)
    answers = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # what a library prints must not end up between answers
    first()

    def tell(value: Any, kind: str = "told") -> None:
        answers.send_bytes(_written((kind, value), pickled))

    with suppress(EOFError, BrokenPipeError):
        while asked.poll(idle_seconds):
            request = _read(asked.recv_bytes(), pickled)
            try:
                tell(answer(request, tell), "found")
            except (Refused, ValueError) as error:
                tell(str(error), "refused")
            except BrokenPipeError:
                raise
            except MemoryError:
                limit = f" ({memory_bytes // 2**30} GiB)" if memory_bytes else ""
                tell(f"{failed}: it needs more memory than it may have{limit}.", "refused")
            except Exception as error:  # one question's failure must not end the process
                tell(f"{failed}: {type(error).__name__}: {error}.", "refused")
            rests()


def _connection(stream: IO[bytes], **kind: bool) -> Connection:
    with stream:
        return Connection(os.dup(stream.fileno()), **kind)


def _written(value: Any, pickled: bool) -> bytes:
    return pickle.dumps(value) if pickled else json.dumps(value).encode()


def _read(data: bytes, pickled: bool) -> Any:
    return pickle.loads(data) if pickled else json.loads(data)
