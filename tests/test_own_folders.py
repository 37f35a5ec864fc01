"""No test reads or writes the folders of the person who runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from own_folders import FOLDER, PERSONS
from planner import disk_cache
from planner.benchmark.ask.process import BENCHMARKS
from planner.jobs.storage import data_folder
from planner.trial.ask.folders import has_history
from planner.trial.ask.process import TRIALS

PLACES = """
from pathlib import Path
from planner.disk_cache import folder
from planner.jobs.storage import data_folder
print(Path.home(), folder("dry-runs"), data_folder(), sep="\\n")
"""


def theirs(path: Path) -> bool:
    return path.is_relative_to(PERSONS) or not path.is_relative_to(FOLDER)


@pytest.mark.parametrize("without", [(), ("HEADROOM_DATA", "HEADROOM_CACHE")])
def test_every_place_is_the_tests_own(
    without: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FOLDER not in (PERSONS, *PERSONS.parents)
    for name in without:
        monkeypatch.delenv(name)
    cache = disk_cache.folder("dry-runs")
    places = [Path.home(), data_folder(), TRIALS.place(), BENCHMARKS.place(), cache]
    assert not [place for place in places if theirs(place)]
    done = subprocess.run(
        [sys.executable, "-c", PLACES], capture_output=True, text=True, check=True
    )
    assert not [place for place in done.stdout.split() if theirs(Path(place))]


@pytest.mark.parametrize("time", [1, 2])
def test_data_is_of_one_test_alone(time: int) -> None:
    assert not data_folder().exists() and not has_history()
    data_folder().mkdir(parents=True)
    (data_folder() / "trials.sqlite").touch()
    assert has_history()


def test_no_database_of_the_persons_is_named() -> None:
    assert "HEADROOM_HISTORY_URL" not in os.environ
