"""Whole runs: what they leave, what a kill costs, how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from planner.jobs.following import followed
from planner.sampling.ask.process import RUNS, reopen
from planner.sampling.ask.prompts import key_of
from planner.sampling.ask.result import Provenance, SamplingResult, read_result
from planner.sampling.ask.setup import SETUP, Setup, predicted, prepared
from planner.sampling.ask.store import WEIGHTS, SamplingFolder, result_of
from planner.sampling.ask.supervisor import SamplingSupervisor
from planner.sampling.ask.weights import KEY, provenance
from planner.sampling.run import stages
from planner.sampling.run.job import Job
from planner.sampling.run.meter import Meter
from sampling.run import tiny

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")

KILLED = """
import os, signal, sys
from pathlib import Path
from planner.sampling.run import worker
from planner.jobs.folder import JobFolder
from planner.sampling.ask.store import SamplingFolder

own, left = JobFolder.say, int(sys.argv[2])

def say(self, name, **more):
    global left
    own(self, name, **more)
    left -= name == "computed"
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

JobFolder.say = say
worker.run(SamplingFolder(Path(sys.argv[1])), ["calibrate", "embed", "search", "weigh"])
"""


def killed(folder: SamplingFolder, after: int) -> None:
    """Run the stages in a process that is killed once so many pieces are computed."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder.path), str(after)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]


def here(job: Job) -> list[dict[str, Any]]:
    """Run all stages in this process; what they said."""
    said: list[dict[str, Any]] = []

    def say(name: str, **more: Any) -> None:
        said.append({"name": name, **more})

    meter = Meter(say)
    stages.calibrate(job, meter)
    _, held = stages.embed(job, meter, say)
    stages.find_neighbours(job, meter, say, held)
    stages.weigh(job, meter)
    return said


def result(job: Job) -> SamplingResult:
    return result_of(SamplingFolder(job.folder), "completed", "", 1.0)


def weights(job: Job) -> np.ndarray:
    found: np.ndarray = pq.read_table(job.folder / WEIGHTS)["weight"].to_numpy()
    return found


def test_a_run_that_was_killed_goes_on_and_computes_nothing_twice(
    model: Path, tmp_path: Path
) -> None:
    prompts = tiny.some(40)
    request, folder = tiny.run(tmp_path, model, prompts, chunk_prompts=8)
    prepared(request, folder.path)
    killed(folder, 3)  # in the embedding of 5 chunks
    killed(folder, 4)  # the last two chunks, and 2 of 5 parts of neighbours
    (folder.path / "embeddings" / ".embeddings-000009.parquet.1.part").write_bytes(b"half")
    heard: list[str] = []
    with followed(folder, heard.extend):
        done = SamplingSupervisor(folder, tmp_path / "data").run()
    assert done.status == "completed", (done.reason, done.stderr_tail)
    computed = [(e["what"], e["first"]) for e in folder.progress() if e["name"] == "computed"]
    assert sorted(computed) == sorted(
        (what, first) for what in ("embeddings", "neighbours") for first in range(0, 40, 8)
    )
    told = [event for event in map(json.loads, heard) if event["name"] == "computed"]
    assert [event["first"] for event in told] == [16, 24, 32]
    whole = tiny.job(tmp_path / "whole", model, prompts, chunk_prompts=8)
    here(whole)
    assert weights(Job.of(folder.path)) == pytest.approx(weights(whole), rel=1e-5)
    assert {stage.name for stage in done.stages} >= {"embed", "search", "weigh"}
    assert folder.result() == done and read_result(done.model_dump_json()) == done


def test_a_run_is_told_in_numbers(model: Path, tmp_path: Path) -> None:
    crowd = [f"w1 w2 w3 w4 w5 w6 w7 w8 w{n}" for n in range(20, 40)]
    odd = ["w50 w51 w52 w53 w54 w55 w56"]
    job = tiny.job(tmp_path, model, [*crowd, *odd], neighbours=3, index="faiss-flat")
    said = here(job)
    found = result(job)
    assert found.rarest[0].place == 20 and found.rarest[0].text == odd[0]
    assert found.rarest[0].weight > found.commonest[0].weight > 0
    assert found.histogram is not None and sum(found.histogram.counts) == 21
    assert found.recall is None  # nothing was sampled: an exact search has none
    table = pq.read_table(job.folder / WEIGHTS)
    assert table.column_names == ["place", "key", "distance", "weight"]
    assert table["key"].to_pylist()[20] == key_of(odd[0])
    assert sum(table["weight"].to_pylist()) == pytest.approx(1)
    begun = [each["stage"] for each in said if each["name"] == "begins"]
    calibrated = ["calibrate search", "load", "calibrate embed"]
    assert begun == [*calibrated, "embed", "read", "search", "weigh"]
    for each in said:
        if each["name"] == "ended":
            assert each["host_before_bytes"] > 0
            assert each["host_peak_bytes"] >= each["host_before_bytes"]
    assert [each["done"] for each in said if each["name"] == "at"][-1] == 21


def test_a_run_finds_how_far_a_compressor_gets_with_its_own_embeddings(
    model: Path, tmp_path: Path
) -> None:
    """Most prompts are one prompt: random directions would shrink by 8 %."""
    prompts = [*["w1 w2 w3"] * 200, *(f"w{n} w{n + 1} w{n + 2}" for n in range(1, 40))]
    job = tiny.job(tmp_path, model, prompts, chunk_prompts=300)
    here(job)
    told = predicted(job.folder)
    assert told is not None
    (chunk,) = (job.folder / "embeddings").glob("*.parquet")
    file = tmp_path / "compressed.parquet"
    plain = {"use_dictionary": False, "write_statistics": False}
    pq.write_table(pq.read_table(chunk), file, compression="zstd", **plain)
    column = pq.read_metadata(file).row_group(0).column(0)
    assert told.disk.compressed.bytes == pytest.approx(column.total_compressed_size, rel=0.01)
    assert told.disk.compressed.bytes < 0.5 * told.disk.raw.bytes


@pytest.mark.parametrize(
    "choices",
    [
        {"mode": "online"},
        {"embedding": "logits", "dtype": "fp16"},
        {"index": "faiss-ivf", "lists": 2, "probes": 2, "mode": "streaming"},
        {"index": "faiss-ivf", "lists": 2, "probes": 1, "dtype": "fp16", "favour": "common"},
    ],
    ids=str,
)
def test_every_way_ends_with_weights(
    choices: dict[str, Any], model: Path, tmp_path: Path
) -> None:
    job = tiny.job(tmp_path, model, tiny.some(90), neighbours=3, chunk_prompts=32, **choices)
    here(job)
    found = result(job)
    assert (found.recall is None) == (job.request.index != "faiss-ivf")
    if choices.get("probes") == 2:
        assert found.recall == 1.0  # every list was probed
    plain = tiny.job(tmp_path / "plain", model, tiny.some(90), neighbours=3)
    here(plain)
    asked = job.request
    if (asked.embedding, asked.favour) == ("hidden", "rare"):
        assert weights(job) == pytest.approx(weights(plain), rel=1e-3)


def test_weights_say_what_they_were_made_of(model: Path, tmp_path: Path) -> None:
    job = tiny.job(tmp_path, model, tiny.some(30), neighbours=3)
    here(job)
    written = pq.read_schema(job.folder / WEIGHTS).metadata[KEY]
    made = Provenance.model_validate_json(written)
    assert (made.prompts, made.neighbours, made.favour) == (30, 3, "rare")
    assert made.prompts_sha256 == sha256(Path(job.request.prompts).read_bytes()).hexdigest()
    assert made == provenance(job.request, job.setup, 0, 0).model_copy(
        update={"created": made.created}
    )


def test_what_has_changed_since_is_not_gone_on_with(model: Path, tmp_path: Path) -> None:
    request, folder = tiny.run(tmp_path, model, tiny.some(30))
    prepared(request, folder.path)
    assert prepared(request, folder.path).prompts == 30
    tiny.file_of(Path(request.prompts), tiny.some(31))
    done = SamplingSupervisor(folder, tmp_path / "data").run()
    assert done.status == "failed"
    assert done.reason.startswith("resume: the file of prompts and the number of prompts changed")
    assert Setup.model_validate_json((folder.path / SETUP).read_bytes()).prompts == 30


def test_a_run_that_is_stopped_keeps_what_it_has_and_says_so(model: Path, tmp_path: Path) -> None:
    request, folder = tiny.run(tmp_path, model, tiny.some(30), calibration_seconds=600.0)
    supervisor = SamplingSupervisor(folder, tmp_path / "data")

    def heard(lines: list[str]) -> None:
        if any(json.loads(line)["name"] == "begins" for line in lines):
            folder.ask_to_stop()

    with followed(folder, heard):
        done = supervisor.run()
    assert (done.status, done.reason) == ("stopped", "It was stopped in calibrate search.")
    reopen(folder)
    assert folder.result() is None and not folder.asked_to_stop()


def test_what_a_person_can_mend_is_said_in_a_sentence(model: Path, tmp_path: Path) -> None:
    request, folder = tiny.run(tmp_path, model, ["only one"])
    done = SamplingSupervisor(folder, tmp_path / "data").run()
    assert done.status == "failed" and done.reason.startswith("prompts: 1 in the file")
    few = {"neighbours": 30}
    request, folder = tiny.run(tmp_path, model, tiny.some(10), **few)
    done = SamplingSupervisor(folder, tmp_path / "data").run()
    assert done.reason.startswith("neighbours: ")


def test_a_run_whose_process_is_gone_has_a_result(model: Path, tmp_path: Path) -> None:
    request, folder = tiny.run(tmp_path, model, tiny.some(10))
    folder.own(os.getpid())
    running = RUNS.look(folder)
    assert running is not None and running.running
    assert running.request == request == folder.request()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder.own(dead.pid)
    over = RUNS.look(folder)
    assert over is not None and over.result is not None and over.result.status == "killed"
    assert Counter(state.running for state in RUNS.states(tmp_path / "data")) == {False: 1}
    assert RUNS.forget(folder) and not folder.path.exists()
