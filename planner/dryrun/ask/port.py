"""The one way to a dry run from a process without torch: a warm worker behind a pipe.

A worker executes one plan at a time; who asks meanwhile waits. A request can be given up at
any moment: the worker is ended and the next request starts another.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from typing import Any

from planner.catalog import spot
from planner.dryrun.ask import store
from planner.dryrun.ask.answer import DryRun, answer
from planner.dryrun.ask.request import capacity_of, key_of
from planner.forks import client
from planner.forks.client import PIPE, Process, begin, environment
from planner.plan import Plan
from planner.plan.lengths import at_longest

POLL_SECONDS = 0.05
LIMIT_SECONDS = 300.0
WORKER = "planner.dryrun.run.worker"


class DryRunError(Exception):
    """A dry run that gave no answer; the message is a sentence for people."""


class Cancelled(DryRunError):
    """The person gave up waiting."""


class Port:
    """Asks a worker process, and remembers its answers on disk."""

    def __init__(self, folder: Path | None = None) -> None:
        """Answers are kept in ``folder``; by default in the user's cache."""
        self._folder = folder
        self._turn = threading.Lock()
        self._process: Process | None = None
        self._buffer = b""

    def run(
        self,
        plan: Plan,
        *,
        full_depth: bool = False,
        lengths: bool = False,
        snapshot: Path | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> DryRun:
        """The dry run of a plan, from the store when it was asked before.

        Args:
            plan: what to run, with every response the longest there can be.
            full_depth: run every layer instead of repeating a block.
            lengths: also string steps of different lengths together, for fragmentation.
            snapshot: where to write a snapshot for PyTorch's memory viewer.
            cancelled: asked again and again; True gives up.

        Raises:
            DryRunError: with a sentence, when there is no answer.
        """
        run = at_longest(plan)
        key = key_of(run, full_depth=full_depth)
        found = None if snapshot else store.load(key, self._folder)
        if found is not None and lengths and "lengths" not in found:
            found = None
        if found is None:
            request = {
                "plan": run.model_dump(),
                "full_depth": full_depth,
                "lengths": lengths,
                "capacity_bytes": capacity_of(run),
            }
            if snapshot is not None:
                request["snapshot"] = str(snapshot.resolve())
            found = self._ask(request, cancelled)
            store.save(key, found, self._folder)
        return answer(plan, found)

    def measure(
        self,
        key: str,
        config: Mapping[str, Any],
        names: Sequence[str],
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Measure a config's coefficients in these settings on the spot, and keep them.

        Raises:
            DryRunError: with a sentence, when there is no answer; that a config cannot be
                measured is one.
        """
        entry = self._ask({"measure": dict(config), "settings": list(names)}, cancelled)
        spot.keep(key, {**entry, "config": dict(config)})

    def remembered(self, plan: Plan, *, full_depth: bool = False) -> DryRun | None:
        """The stored answer of a plan, at once; None when it was never asked."""
        found = store.load(key_of(at_longest(plan), full_depth=full_depth), self._folder)
        return None if found is None else answer(plan, found)

    def warm_up(self) -> None:
        """Start the worker, so that its imports are over when somebody asks.

        It is a fork, and so are those that come after it: imports are paid for once.
        """
        client.serve()
        if self._turn.acquire(blocking=False):
            try:
                self._alive()
            finally:
                self._turn.release()

    def close(self) -> None:
        """End the worker, if there is one."""
        process, self._process = self._process, None
        self._buffer = b""
        if process is None:
            return
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def _ask(self, request: Mapping[str, Any], cancelled: Callable[[], bool]) -> dict[str, Any]:
        while not self._turn.acquire(timeout=POLL_SECONDS):
            if cancelled():
                raise Cancelled("The dry run was cancelled.")
        try:
            process = self._alive()
            assert process.stdin is not None
            # A worker that has ended is noticed, and said, while reading.
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
            message = self._message(process, cancelled)
            while "ready" in message:
                message = self._message(process, cancelled)
        finally:
            self._turn.release()
        if "error" in message:
            raise DryRunError(str(message["error"]))
        result: dict[str, Any] = message["result"]
        return result

    def _alive(self) -> Process:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            inherited = environment(on_cpu=True)
            self._process = begin(WORKER, environment=inherited, stdin=PIPE, stdout=PIPE)
        return self._process

    def _message(
        self, process: Process, cancelled: Callable[[], bool]
    ) -> dict[str, Any]:
        assert process.stdout is not None
        waited = 0.0
        while b"\n" not in self._buffer:
            if cancelled():
                self.close()
                raise Cancelled("The dry run was cancelled.")
            if waited > LIMIT_SECONDS:
                self.close()
                raise DryRunError(
                    f"The dry run took more than {LIMIT_SECONDS:.0f} s and was stopped."
                )
            if not select([process.stdout], [], [], POLL_SECONDS)[0]:
                waited += POLL_SECONDS
                continue
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                status = process.wait()
                self.close()
                raise DryRunError(
                    f"The dry run's process ended without an answer (status {status}); "
                    "run it again."
                )
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message
