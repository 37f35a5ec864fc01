"""Benchmarks as an app sees them: start one, look how it stands, stop it. No torch.

A benchmark is a process of its own, the command ``planner benchmark``, with a folder while it
runs: who it is, how far, and what its libraries said. When it ends well its result is among the
kept ones and the folder is gone; otherwise the folder says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.jobs.folder import JobFolder
from planner.jobs.processes import Jobs
from planner.jobs.strict import JobRequest, JobResult, shown

BUDGET_SECONDS = 20.0


class BenchmarkRequest(JobRequest):
    """A device, and the time to measure it."""

    seconds: float = BUDGET_SECONDS


@dataclass(frozen=True, slots=True)
class BenchmarkFolder(JobFolder[BenchmarkRequest, JobResult]):
    """The files of a benchmark that has not ended well."""

    def request(self) -> BenchmarkRequest:
        """What was asked."""
        return BenchmarkRequest.model_validate_json((self.path / "request.json").read_bytes())

    def result(self) -> None:
        """A benchmark's own result is elsewhere."""

    def ended(self, status: str, reason: str, seconds: float) -> JobResult:
        """Why there is no result; nothing of it is kept."""
        if status != "stopped":
            reason = f"It ended without a result: {shown(self.last_words(), 300)}"
        return JobResult(id=self.identifier, status=status, reason=reason, seconds=seconds)


def _command(request: BenchmarkRequest) -> tuple[str, ...]:
    return "benchmark", "--device", request.device, "--seconds", f"{request.seconds:g}"


BENCHMARKS = Jobs("benchmarks", BenchmarkFolder, _command, BenchmarkFolder.lost)
