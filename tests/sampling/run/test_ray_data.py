"""Ray Data jobs on a local cluster: what they leave equals a single process's to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from planner.sampling.ask.store import SamplingFolder
from planner.sampling.ask.supervisor import worker_environment
from planner.sampling.run import stages
from planner.sampling.run.job import Job
from planner.sampling.run.meter import Meter
from sampling.run import tiny
from trial.ray_head import WORKERS, running_head

ROOT = Path(__file__).parents[3]


def on_cluster(job: Job, settings: Mapping[str, str] = MappingProxyType({})) -> None:
    """Run the stages of a job as Ray Data jobs, on the cluster that it names."""
    done = subprocess.run(
        [sys.executable, "-m", "planner.sampling.run.worker", str(job.folder), "ray", "weigh"],
        cwd=ROOT,
        env={
            **worker_environment(job.request, ("ray",)),
            "RAY_USAGE_STATS_ENABLED": "0",
            **WORKERS,
            **settings,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_shards_on_a_cluster_equal_one_process(model: Path, tmp_path: Path) -> None:
    prompts = [*tiny.some(60), *tiny.some(20)]  # duplicates, so that shards have ties
    choices = {"chunk_prompts": 16, "neighbours": 3}
    job = tiny.job(tmp_path / "ray", model, prompts, ray="local", **choices)
    alone = tiny.job(tmp_path / "alone", model, prompts, **choices)
    on_cluster(job)
    meter = Meter(lambda *said, **more: None)
    for chunk in range(alone.chunks.count):  # the very vectors, whatever threads embedded them
        os.link(job.chunks.file(chunk), alone.chunks.file(chunk))
    stages.find_neighbours(alone, meter, lambda *said, **more: None, None)
    for column in ("distances", "places"):
        for (_, ours), (_, theirs) in zip(job.kept(column), alone.kept(column), strict=True):
            assert np.array_equal(ours, theirs)
    said = SamplingFolder(job.folder).progress()
    computed = sorted((e["what"], e["first"]) for e in said if e["name"] == "computed")
    assert computed == sorted(
        (what, first) for what in ("embeddings", "neighbours") for first in range(0, 80, 16)
    )
    own = tiny.job(tmp_path / "own", model, prompts, **choices)
    stages.embed(own, meter, lambda *said, **more: None)
    assert np.allclose(own.chunks.whole(), job.chunks.whole(), atol=1e-5)
    assert Job.of(job.folder).missing_parts() == []


def test_lists_on_a_running_cluster_equal_one_process(model: Path, tmp_path: Path) -> None:
    """Joined by its address, with the token that it asks for."""
    lists = {"index": "faiss-ivf", "lists": 3, "probes": 2, "chunk_prompts": 32, "neighbours": 3}
    alone = tiny.job(tmp_path / "alone", model, tiny.some(130), **lists)
    with running_head() as head:
        job = tiny.job(tmp_path / "ray", model, tiny.some(130), ray=head.joined_at, **lists)
        on_cluster(job, head.settings)
        # What a program that joined writes beside the cluster's own logs.
        assert [*head.place.glob("session_2*/logs/python-core-driver-*")]
    meter = Meter(lambda *said, **more: None)
    (alone.folder / "index").mkdir()
    os.link(job.folder / "index" / "centroids.npy", alone.folder / "index" / "centroids.npy")
    for chunk in range(alone.chunks.count):
        os.link(job.chunks.file(chunk), alone.chunks.file(chunk))
    stages.find_neighbours(alone, meter, lambda *said, **more: None, None)
    for column in ("distances", "places"):
        for (_, ours), (_, theirs) in zip(job.kept(column), alone.kept(column), strict=True):
            assert np.array_equal(ours, theirs)
    shares = [(each.folder / stages.RECALL).read_text() for each in (job, alone)]
    assert shares[0] == shares[1] and 0 < float(shares[0]) < 1
