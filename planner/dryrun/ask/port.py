"""The one way to a dry run from a process without torch: a warm worker behind a pipe.

A worker executes one plan at a time; who asks meanwhile waits. A request can be given up at
any moment: the worker is ended and the next request starts another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.catalog import spot
from planner.dryrun.ask import store
from planner.dryrun.ask.answer import DryRun, answer
from planner.dryrun.ask.request import capacity_of, key_of
from planner.forks import client
from planner.jobs.worker import Worker, Workers
from planner.plan import Plan
from planner.plan.lengths import at_longest

WORKER = "planner.dryrun.run.worker"


class Port:
    """Asks a worker process, and remembers its answers on disk."""

    def __init__(self, folder: Path | None = None) -> None:
        """Answers are kept in ``folder``; by default in the user's cache."""
        self._folder = folder
        self._workers = Workers(_begun)

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
            Refused: with a sentence, when there is no answer.
            GivenUp: when ``cancelled`` says so.
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
            found = self._workers.ask(request, cancelled)
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
            Refused: with a sentence, when there is no answer; that a config cannot be measured
                is one.
            GivenUp: when ``cancelled`` says so.
        """
        entry = self._workers.ask({"measure": dict(config), "settings": list(names)}, cancelled)
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
        self._workers.warm()

    def close(self) -> None:
        """End the worker, if there is one."""
        self._workers.close()


def _begun() -> Worker:
    return Worker(WORKER, environment=client.environment(on_cpu=True), what="The dry run")
