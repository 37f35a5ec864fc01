"""Sees to one run: checks what it was given, and runs its stages in processes. No torch.

Whatever a stage does, the run has a result; what its stages have written stays, so the same run
can go on later.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from planner.forks.client import ROOT
from planner.jobs import supervisor
from planner.jobs.supervisor import Supervisor
from planner.jobs.turns import Turn
from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.result import SamplingResult
from planner.sampling.ask.setup import prepared, say_predicted

WORKER = "planner.sampling.run.worker"
REFUSED = 4
"""A worker's exit status for what a person can mend; its last line says what."""
KEPT = "; everything that the run computed is kept"


class SamplingSupervisor(Supervisor[SamplingRequest, SamplingResult]):
    """One run from request to result."""

    def work(self, turn: Turn) -> SamplingResult:
        """Prepare the run, and do its stages."""
        self.folder.say("preparing")
        try:
            prepared(self.request, self.folder.path)
            say_predicted(self.folder)
            for names in processes(self.request):
                outcome = self._process(names)
                if outcome is not None:
                    return outcome
        except (ValueError, OSError) as error:
            return self.ended("failed", " ".join(str(error).split()))
        return self.ended("completed", "")

    def _process(self, names: tuple[str, ...]) -> SamplingResult | None:
        """Run some stages; how the run ended with them, or None when it goes on."""
        with open(self.folder.stderr, "ab") as said:
            # Not a fork: its memory is told, and nothing of others' may be in it.
            process = subprocess.Popen(
                [sys.executable, "-m", WORKER, str(self.folder.path), *names],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=ROOT,
                env=worker_environment(self.request, names),
                start_new_session=True,
            )
        cut = self.watch(process)
        if cut is not None or process.returncode == 0:
            return cut
        if process.returncode == REFUSED:
            return self.ended("failed", self.folder.last_words()[:500])
        return self.without_result(process.returncode, KEPT)


def processes(request: SamplingRequest) -> Iterator[tuple[str, ...]]:
    """The stages of each process: online, what embeds goes on to search beside its model.

    A cluster is not calibrated: this machine's rates are not its nodes'.
    """
    if request.ray:
        yield "ray", "weigh"
        return
    yield ("calibrate",)
    if request.mode == "online":
        yield "embed", "search", "weigh"
    else:
        yield ("embed",)
        yield "search", "weigh"


def worker_environment(request: SamplingRequest, names: tuple[str, ...]) -> dict[str, str]:
    """A worker's, with memory that is given back."""
    found = {
        **supervisor.worker_environment(on_cpu=request.device == "cpu"),
        "TOKENIZERS_PARALLELISM": "false",
        # Arrow's own pool keeps what was freed; the system's gives it back.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    if "embed" not in names:
        # Large arrays are mapped and given back, however often; a forward would wait for it.
        found["MALLOC_MMAP_THRESHOLD_"] = f"{2**20}"
    return found
