"""Sees to one trial: starts its worker when it is its turn, and guards it. No torch."""

from __future__ import annotations

import time

from planner.forks.client import begin
from planner.jobs.host_memory import guarded_bytes, resident_bytes
from planner.jobs.spare import SETTING
from planner.jobs.supervisor import Supervisor, worker_environment
from planner.jobs.turns import Turn
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.result import TrialResult, read_result
from planner.units import read_bytes, read_seconds

WORKER = "planner.trial.run.worker"


class TrialSupervisor(Supervisor[TrialRequest, TrialResult]):
    """One trial from request to result."""

    def work(self, turn: Turn) -> TrialResult:
        """Run the worker, within the trial's time and memory."""
        allowed, most = guarded_bytes(self.request.host_limit_bytes), 0
        seconds = self.request.limit_seconds
        self.folder.say("starting", limit_seconds=seconds)
        command: tuple[str, ...] = (WORKER, str(self.folder.path))
        if self.request.processes > 1:
            several = ("--standalone", f"--nproc-per-node={self.request.processes}", "-m")
            command = ("torch.distributed.run", *several, *command)
        with open(self.folder.stderr, "ab") as said:
            process = begin(
                *command,
                environment={**environment_of(self.request), SETTING: self.spare.path},
                stdout=said,
                stderr=said,
                handles=turn.handles,
            )
        start = time.monotonic()

        def limit() -> tuple[str, str] | None:
            nonlocal most
            resident = resident_bytes(process.pid) or 0
            most = max(most, resident)
            if time.monotonic() - start > seconds:
                took = read_seconds(seconds)
                return "timed out", f"The trial took more than {took} and was ended in {{}}."
            if allowed is not None and resident > allowed:
                return "host memory", (
                    f"The trial was ended in {{}}: its processes used {read_bytes(resident)} of "
                    f"host memory, and the limit is {read_bytes(allowed)}."
                )
            return None

        cut = self.watch(process, limit)
        if cut is not None:
            return cut
        try:
            found = self.folder.result()
        except ValueError as error:
            return self.ended("failed", f"Its result cannot be read: {error}")
        if found is None and (spared := self.spare.text()):
            return self.folder.settled(read_result(spared))
        held = f" (the worker held {read_bytes(most)} at most)"
        return found or self.without_result(process.wait(), held)


def environment_of(request: TrialRequest) -> dict[str, str]:
    """A worker's, and the plan's allocator."""
    segments = request.planned().expandable_segments
    return {
        **worker_environment(on_cpu=request.kind == "cpu"),
        "PYTORCH_ALLOC_CONF": f"expandable_segments:{segments}",
    }
