"""Sees to a trial that a Ray cluster runs: a job there, its folder here.

The job's command is the one that runs here, with ``--stream``; this process follows its log into
the folder, so whoever looks there sees what they would of a local trial. No torch.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from planner.jobs.folder import JobFolder
from planner.jobs.supervisor import Supervisor
from planner.jobs.turns import Turn
from planner.trial.ask.folders import TrialFolder
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.result import TrialResult
from planner.trial.cluster import shipment
from planner.trial.cluster.address import SETTING, host_of
from planner.trial.cluster.client import Cluster, ClusterAway, ClusterRefused
from planner.trial.cluster.job import Following


class RemoteSupervisor(Supervisor[TrialRequest, TrialResult]):
    """One trial from request to result, run by a cluster."""

    def work(self, turn: Turn) -> TrialResult:
        """Hand the job in and follow it."""
        request, host = self.request, host_of(self.request.ray)
        self.folder.remember({"environment": {"versions": {}, "cluster": request.ray}})
        job = job_name(self.folder)
        try:
            cluster = Cluster(request.ray)
            with tempfile.TemporaryDirectory(prefix="headroom-") as place:
                shipment.pack(Path(place))
                cluster.submit(
                    job,
                    job_command(request, self.folder),
                    lambda: shipment.runtime_env(Path(place)),
                    cpus=request.processes,
                    gpus=request.processes if request.kind == "cuda" else 0,
                )
        except ClusterAway as error:
            return self.ended(
                "failed",
                f"The Ray cluster {host} does not answer: {error}. Check that the cluster "
                f"runs and that its dashboard can be reached from here, or correct {SETTING}.",
            )
        except ClusterRefused as error:
            said = str(error)
            if not said.startswith("ray: "):
                said = f"The Ray cluster {host} refused the job: {said}."
            return self.ended("failed", said)
        except (OSError, ValueError) as error:
            return self.ended("failed", f"The trial cannot be sent to the cluster: {error}")
        self.folder.say("queued", ahead=0)
        return Following(self, cluster, job).run()


def job_name(folder: JobFolder[Any, Any]) -> str:
    """The job's name on the cluster, which is the trial's."""
    return f"headroom-{folder.identifier}"


def job_command(request: TrialRequest, folder: JobFolder[Any, Any]) -> str:
    """What the node's shell runs: the trial's own command."""
    there = request.model_copy(update={"ray": ""}).model_dump_json()
    command = ("python", "-m", "planner", "trial", request.plan, "--json", "--stream")
    return shlex.join([*command, folder.identifier, there])


def abandon(folder: TrialFolder) -> subprocess.Popen[bytes]:
    """End the job of a trial whose process is gone, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=shipment.ROOT,
        start_new_session=True,
    )


if __name__ == "__main__":
    orphan = TrialFolder(Path(sys.argv[1]))
    Cluster(orphan.request().ray).stop(job_name(orphan))
