"""Follows a cluster's job into its trial's folder, and says how it ended. No torch.

Its log brings progress and the result; Ray's word on the job is asked for beside it, so that a
job that says nothing, or a cluster that is gone, still ends the trial with a sentence.
"""

from __future__ import annotations

import signal
import time

from planner.jobs.supervisor import Supervisor
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.result import Status, TrialResult
from planner.trial.cluster import shipment
from planner.trial.cluster.client import Cluster, ClusterAway, ClusterRefused, JobState, LogTail
from planner.trial.cluster.job_log import Heard
from planner.units import read_seconds

POLL_SECONDS = 1.0
"""Between two questions how the job stands."""
GONE_SECONDS = 60.0
"""Without an answer, after which the cluster is taken to be gone."""
START_SECONDS = 1200.0
"""For the cluster to start the job: free cards, and pip. Ray itself gives up after 900."""
SLACK_SECONDS = 60.0
"""Beyond the trial's own limit, which its command keeps on the node, for that command to say so."""
REST_SECONDS = 30.0
"""For the rest of a log whose job is over."""


class Following:
    """A job that has been handed in, until its trial has a result."""

    def __init__(
        self, sees_to: Supervisor[TrialRequest, TrialResult], cluster: Cluster, job: str
    ) -> None:
        """Nothing is asked of the cluster yet.

        Args:
            sees_to: the trial that the job runs.
            cluster: which has the job.
            job: its name there.
        """
        self.request, self.folder = sees_to.request, sees_to.folder
        self.stopping, self.ended = sees_to.stopping, sees_to.ended
        self.cluster, self.job = cluster, job
        self.tail: LogTail | None = None
        self.heard = Heard(self.request, self.folder)
        self.state = JobState(status="PENDING")
        self.since = time.monotonic()
        """When it was handed in, and once it runs, when it began to."""

    def run(self) -> TrialResult:
        """Return when the trial has a result."""
        try:
            return self._followed()
        finally:
            if self.tail is not None:
                self.tail.close()

    def _followed(self) -> TrialResult:
        answered = asked = time.monotonic()
        while True:
            if self.stopping():
                self._stop()
                return self.ended("stopped", f"It was stopped in {self._where()}.")
            self._listen()
            if self.heard.result is not None:
                return self.folder.settled(self.heard.result)
            if self.heard.too_much:
                self._stop()
                return self.ended("failed", "The job wrote more output than any trial does.")
            if time.monotonic() - asked < POLL_SECONDS:
                continue
            asked = time.monotonic()
            try:
                self._ask()
                answered = time.monotonic()
            except (ClusterAway, ClusterRefused) as error:
                if time.monotonic() - answered > GONE_SECONDS:
                    return self._gone(error)
            if self.state.over:
                return self._over()
            late = self._late()
            if late is not None:
                self._stop()
                return self.ended(*late)

    def _ask(self) -> None:
        state = self.cluster.state(self.job)
        if state.status != "PENDING" and self.state.status == "PENDING":
            self.since = time.monotonic()
        self.state = state

    def _listen(self) -> None:
        """Read on in the log, or wait where there is none yet."""
        if self.tail is not None and self.tail.over:
            self.tail.close()
            self.tail = None  # the connection ended, and the log has not: go on where it was
            time.sleep(POLL_SECONDS / 2)
        if self.tail is None:
            if self.state.status == "PENDING":
                time.sleep(POLL_SECONDS / 2)
                return
            self.tail = self.cluster.log(self.job, self.heard.characters)
        self.heard.feed(self.tail.take(POLL_SECONDS / 2))

    def _late(self) -> tuple[Status, str] | None:
        """How it ends for having taken too long; None when it has not."""
        spent, limit = time.monotonic() - self.since, self.request.limit_seconds
        waits = self.state.status == "PENDING"
        if spent <= (START_SECONDS if waits else limit + SLACK_SECONDS):
            return None
        if not waits:
            took = (
                f"The trial took more than {read_seconds(limit)} and was ended in {self._where()}."
            )
            return "timed out", took
        needs = f"{self.request.processes} × CPU"
        if self.request.kind == "cuda":
            needs += f" and {self.request.processes} × GPU"
        return "failed", (
            f"The Ray cluster {self.cluster.host} did not start the job in "
            f"{read_seconds(START_SECONDS)}; the job asks one node for {needs}. "
            f"Ray says: {_line(self.state.message)}"
        )

    def _gone(self, error: Exception) -> TrialResult:
        return self.ended(
            "failed",
            f"The Ray cluster {self.cluster.host} has not answered for "
            f"{read_seconds(GONE_SECONDS)}, since {self._where()}: {error}. If the cluster still "
            f"runs, its job {self.job} ends at the trial's time limit.",
        )

    def _over(self) -> TrialResult:
        """The job has ended: read the rest of its log, and say how."""
        end = time.monotonic() + REST_SECONDS
        broken = ""
        while self.heard.result is None and time.monotonic() < end:
            self._listen()
            if self.tail is not None and self.tail.over:
                broken = self.tail.broken
                if not broken:
                    break
        self.heard.finish()
        if self.heard.result is not None:
            return self.folder.settled(self.heard.result)
        if self.heard.refused:
            return self.ended("failed", f"Its result was refused: {self.heard.refused}")
        if broken:
            return self.ended("failed", f"The job's log cannot be read: {broken}.")
        return self._without_result()

    def _without_result(self) -> TrialResult:
        state, where = self.state, self._where()
        if state.status == "STOPPED":
            return self.ended("stopped", f"Somebody stopped the job on the cluster, in {where}.")
        if state.error == "RUNTIME_ENV_SETUP_FAILURE":
            return self.ended(
                "failed",
                "The cluster could not prepare the node, so nothing ran: "
                f"{_telling(state.message)} Where the nodes have the packages of "
                f"{shipment.REQUIREMENTS}, set {shipment.PIP}=off.",
            )
        number = _signal(state.exit_status)
        if number is not None:
            return self.ended(
                "killed",
                f"The job's command was ended by {number.name} in {where}. Headroom did not send "
                "that signal: another process of the node did, or its operating system, which "
                "does so when memory runs out.",
            )
        said = self.heard.last or "it said nothing"
        reason = (
            f"The command ended with status {state.exit_status} on the cluster's node, in {where}, "
            f"and left no result: {said[:300]}"
        )
        if state.exit_status is None:
            reason = f"The cluster ended its job in {where}: {_line(state.message)}"
        return self.ended("failed", reason)

    def _stop(self) -> None:
        try:
            self.cluster.stop(self.job)
        except (ClusterAway, ClusterRefused) as error:
            self.folder.say("not stopped", status=str(error)[:100])

    def _where(self) -> str:
        found = self.folder.doing()
        return "its beginning" if found == "queued" else found


def _signal(status: int | None) -> signal.Signals | None:
    """The signal that an exit status tells of, as Python or as a shell says it."""
    if status is None or 0 <= status <= 128:
        return None
    try:
        return signal.Signals(-status if status < 0 else status - 128)
    except ValueError:
        return None


def _telling(message: str) -> str:
    """Of a long message of Ray's the line that tells a person something."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return _line((errors or lines[-1:] or ["it does not say why"])[0].removeprefix("ERROR:"))


def _line(message: str) -> str:
    """A message as one sentence, shortened."""
    said = " ".join(message.split()) or "nothing"
    return f"{said[:500].rstrip('.')}."
