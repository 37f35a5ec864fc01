"""The command: a whole benchmark of the processor, its lock, its end on request, what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks_of_cards import benchmark
from planner.benchmark.ask import archive
from planner.benchmark.ask.process import BENCHMARKS, BenchmarkRequest
from planner.benchmark.run.case import PROCESSOR
from planner.benchmark.run.session import PARTS
from planner.catalog.card_benchmark import read_benchmark
from planner.jobs import processes
from planner.jobs.turns import Turn
from trial.running import ROOT, environment, until

COMMAND = [sys.executable, "-m", "planner", "benchmark", "--device", "cpu"]


def reason() -> str:
    """Why the newest ended."""
    result = BENCHMARKS.states()[0].result
    assert result is not None
    return result.reason


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield tmp_path
    for child in processes.children.values():
        child.kill()
        child.wait()
    processes.children.clear()


def run(*flags: str, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *flags], cwd=ROOT, env=environment(data), capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip


def test_a_processor_is_measured_kept_and_written(data: Path) -> None:
    file = data / "new" / "card.json"
    done = run("--seconds", "1", "--out", str(file), "--json", data=data)
    assert done.returncode == 0, done.stderr
    found = read_benchmark(done.stdout)
    assert found == read_benchmark(file.read_bytes())
    assert archive.kept() == (found,)
    assert {row.part for row in found.measured} == {
        next(iter(cases(PROCESSOR, "cpu"))).part for cases in PARTS
    }
    assert found.device.kind == "cpu" and found.derived == () and found.constants is None
    assert all(row.flops or row.moved_bytes for row in found.measured if row.part != "launches")
    assert "1 of" in done.stderr and "layers" in done.stderr


def test_nothing_is_measured_while_a_trial_has_the_device(data: Path) -> None:
    trial = Turn(["cpu"], "a-trial", data)
    trial.wait(lambda ahead: None, lambda: False)
    done = run("--seconds", "1", data=data)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("device: a trial or a benchmark runs on cpu")
    trial.close()
    assert archive.kept() == ()


def test_nothing_is_measured_while_a_trial_waits_for_the_device(data: Path) -> None:
    waits = Turn(["cpu"], "a-trial", data)
    done = run("--seconds", "1", data=data)
    assert done.returncode == 2 and done.stderr.startswith("device: ")
    waits.close()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--device", "tpu"), "device: 'tpu' is neither"),
        (("--device", "cuda:0"), "device: there is no cuda:0 here"),
        (("--seconds", "0"), "seconds: 0 is not between"),
        (("--seconds", "nan"), "seconds: nan is not between"),
    ],
)
def test_a_wrong_request_is_refused(flags: tuple[str, ...], says: str, data: Path) -> None:
    env = {**environment(data), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*COMMAND[:4], *flags], cwd=ROOT, env=env, capture_output=True, text=True, check=False,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.startswith(says), done.stderr


def test_an_app_starts_one_follows_it_and_finds_what_it_measured(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = BENCHMARKS.start(BenchmarkRequest(seconds=1.0))
    state = until(lambda: next((one for one in BENCHMARKS.states() if one.latest("number") > 1), 0))
    assert state.running and state.latest("count") > 10 and ":" in state.doing
    until(lambda: not BENCHMARKS.states())
    (found,) = archive.kept()
    assert found.id == folder.identifier
    assert archive.remove(found.id) and not archive.remove(found.id)
    assert archive.kept() == ()


def test_an_app_stops_one_and_nothing_is_kept(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = BENCHMARKS.start(BenchmarkRequest(seconds=300.0))
    until(lambda: next((one for one in BENCHMARKS.states() if one.latest("number")), None))
    assert not BENCHMARKS.forget(folder)
    BENCHMARKS.stop(folder)
    until(lambda: not BENCHMARKS.states()[0].running)
    assert reason() == "It was stopped."
    assert archive.kept() == ()
    turn = Turn(["cpu"], "the-next", data)
    turn.wait(lambda ahead: None, lambda: True)
    turn.close()
    assert BENCHMARKS.forget(folder) and BENCHMARKS.states() == []


def test_an_interrupt_gives_it_up(data: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--seconds", "300"], cwd=ROOT, env=environment(data), text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        # Where the tests themselves run in the background, interrupts are ignored and inherited so.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as child:  # fmt: skip
        assert child.stderr is not None
        assert "layers" in next(line for line in child.stderr if line.startswith("1 of "))
        child.send_signal(signal.SIGINT)
        rest = child.stderr.read()
    assert child.returncode == 1 and rest.endswith("interrupted; no figures are stored.\n")
    assert archive.kept() == ()


def test_one_that_is_killed_says_so(data: Path) -> None:
    folder = BENCHMARKS.start(BenchmarkRequest(seconds=300.0))
    until(lambda: next((one for one in BENCHMARKS.states() if one.latest("number")), None))
    os.kill(folder.owner_pid() or 0, signal.SIGKILL)
    until(lambda: not BENCHMARKS.states()[0].running)
    assert reason().startswith("It ended without a result: ")


def test_one_that_meets_a_trial_says_so(data: Path) -> None:
    trial = Turn(["cpu"], "a-trial", data)
    trial.wait(lambda ahead: None, lambda: False)
    BENCHMARKS.start(BenchmarkRequest(seconds=300.0))
    until(lambda: BENCHMARKS.states() and not BENCHMARKS.states()[0].running)
    trial.close()
    assert "a trial or a benchmark runs on cpu" in reason()


def test_damaged_files_are_passed_over_and_the_newest_comes_first(data: Path) -> None:
    folder = BENCHMARKS.place()
    folder.mkdir()
    names = ("20261122-120000-abcdef", "20261123-120000-abcdef")
    for name in names:
        (folder / f"{name}.json").write_text(json.dumps(benchmark(id=name)))
    (folder / "20261124-120000-abcdef.json").write_text("{")
    (folder / "..json").write_text("{}")
    assert [one.id for one in archive.kept()] == list(reversed(names))
    assert not archive.remove("../../etc/passwd")
