"""Several processes write at once, and one is killed while it does: nothing stored is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from planner.trial.history import History
from trial.history.results import trial
from trial.running import ROOT

TOGETHER, EACH = 4, 8
WRITER = Path(__file__).with_name("writer.py")


def writer(url: str, *arguments: object) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, str(WRITER), url, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_processes_that_write_at_once_all_get_through(url: str) -> None:
    """All of them begin on a database without tables, so that they also race to make them."""
    running = [writer(url, 100 * one, EACH) for one in range(TOGETHER)]
    for process in running:
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said[-2000:]
    numbers = {100 * one + number for one in range(TOGETHER) for number in range(EACH)}
    found = {int(line.id[-6:]) for line in History(url).list()}
    assert found == numbers


def test_threads_that_add_the_same_trial_end_with_one(url: str) -> None:
    history = History(url)
    added: list[str] = []
    threads = [
        threading.Thread(target=lambda: added.extend(history.add(trial(7)).added)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert added == [trial(7).id]
    assert history.count() == 1


def test_a_writer_killed_inside_a_transaction_leaves_nothing_of_it(url: str) -> None:
    history = History(url)
    history.add(*(trial(number) for number in range(5)))
    with writer(url, 1000, 40, "held") as process:
        assert process.stdout is not None and process.stderr is not None
        said = [process.stdout.readline().strip() for _ in range(2)]
        assert said == ["started", "held"], process.stderr.read()
        process.kill()
    assert {int(line.id[-6:]) for line in history.list()} == set(range(5))
    assert [one.id for one in history.results()] == [trial(number).id for number in (4, 3, 2, 1, 0)]
    assert len(history.add(*(trial(1000 + number) for number in range(40))).added) == 40
    _whole(history)


@pytest.mark.parametrize("after", [1, 6])
def test_a_writer_killed_at_any_moment_loses_nothing_it_said_was_stored(
    url: str, after: int
) -> None:
    with writer(url, 0, 10_000) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        for _ in range(after):
            process.stdout.readline()
        time.sleep(0.003 * after)  # somewhere in the next transaction
        process.kill()
        said = after + len(process.stdout.read().split())
    history = History(url)
    stored = {int(one.id[-6:]) for one in history.results()}
    # One more may have been stored before it could be said.
    assert stored in (set(range(said)), set(range(said + 1)))
    _whole(history)


def _whole(history: History) -> None:
    if history.url.get_backend_name() == "sqlite":
        with history.engine.connect() as connection:
            assert connection.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
