"""How the tests share out over processes.

A file's tests stay together, so that what a module or a session starts once (a server and a
Chromium, a Ray head, PostgreSQL, the frameworks' own processes) is started in one process; files
that share such a thing are one room. Rooms that take long come first, so that no process is left
alone with one at the end.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

SHARED = ("tests/browser/", "tests/launch/", "tests/trial/history/")
"""Folders whose files share what a session starts."""

HEAVY = (
    "tests/browser/",
    "tests/trial/test_dispatch.py",
    "tests/dryrun/test_depth.py",
    "tests/dryrun/test_real_runs.py",
    "tests/trial/test_process.py",
    "tests/ui/test_pages.py",
    "tests/launch/",
    "tests/methods/test_grade_memory.py",
    "tests/catalog/test_rebuild.py",
    "tests/benchmark/test_command.py",
    "tests/accuracy/test_gpu.py",
    "tests/trial/history/",
)
"""Rooms of more than half a minute, the longest first."""


def room(test: str) -> str:
    """The folder or file whose tests one process runs."""
    path = test.partition("::")[0]
    return next((folder for folder in SHARED if path.startswith(folder)), path)


def heaviest_first(test: str) -> int:
    """A place in the order in which rooms are begun; a stable sort keeps the rest as it is."""
    found = room(test)
    return HEAVY.index(found) if found in HEAVY else len(HEAVY)


class Rooms(LoadScopeScheduling):
    """The next room for whichever process has nothing left to do."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # a room's weight is not its number of tests

    def _split_scope(self, nodeid: str) -> str:
        return room(nodeid)
