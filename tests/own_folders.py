"""Folders of the tests' own: none reads or writes what the person who runs them has.

Set when this is imported, before any test module is, and inherited by every process that a test
starts. Answers of dry runs are shared by the tests of one run; data is each test's own.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
from pathlib import Path

import pytest

SETTING = "HEADROOM_TESTS_FOLDER"
"""Environment variable: the folder of this run, so that its other processes share it."""
PERSONS = Path(os.environ.get(f"{SETTING}_HOME") or Path.home())
"""Where the person's own folders are."""
NUMBERS = itertools.count()


def _folder() -> Path:
    given = os.environ.get(SETTING)
    if given:
        return Path(given)
    made = Path(tempfile.mkdtemp(prefix="headroom-tests-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


FOLDER = _folder()
BROWSERS = PERSONS / ".cache" / "ms-playwright"
if BROWSERS.is_dir():  # Chromium is no data of a person's
    os.environ.setdefault("PLAYWRIGHT_BROWSERS_PATH", str(BROWSERS))
os.environ.update(
    {
        SETTING: str(FOLDER),
        f"{SETTING}_HOME": str(PERSONS),
        "HOME": str(FOLDER / "home"),
        "XDG_DATA_HOME": str(FOLDER / "home" / "data"),
        "XDG_CACHE_HOME": str(FOLDER / "home" / "cache"),
        "HEADROOM_CACHE": str(FOLDER / "cache"),
        "HEADROOM_DATA": str(FOLDER / "data" / "collecting"),
    }
)
os.environ.pop("HEADROOM_HISTORY_URL", None)
(FOLDER / "home").mkdir(exist_ok=True)


@pytest.fixture(autouse=True)
def own_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty data folder for each test, made by whoever first writes there."""
    place = FOLDER / "data" / f"{os.getpid()}-{next(NUMBERS)}"
    monkeypatch.setenv("HEADROOM_DATA", str(place))
