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
    "tests/launch/",
    "tests/sampling/run/test_ray_data.py",
    "tests/trial/test_framework_steps.py",
    "tests/frameworks/test_verl_step.py",
    "tests/dryrun/test_depth.py",
    "tests/dryrun/test_real_runs.py",
    "tests/trial/test_dispatch.py",
    "tests/search/test_properties.py",
    "tests/trial/test_process.py",
    "tests/accuracy/test_grid.py",
    "tests/frameworks/test_trl_sharded.py",
    "tests/frameworks/test_trl_step.py",
    "tests/dryrun/test_rounds.py",
    "tests/frameworks/test_a_folder_is_enough.py",
    "tests/dryrun/test_real_fields.py",
    "tests/trial/test_memory.py",
    "tests/accuracy/test_gpu.py",
    "tests/dryrun/test_linear_attention.py",
    "tests/benchmark/test_command.py",
    "tests/trial/history/",
    "tests/methods/test_grade_memory.py",
    "tests/methods/test_a_folder_is_enough.py",
    "tests/trial/test_full_disk.py",
    "tests/trial/test_torchrun.py",
    "tests/sampling/run/test_run.py",
    "tests/trial/test_allocations.py",
    "tests/ui/test_pages.py",
    "tests/search/test_answer.py",
    "tests/accuracy/test_report.py",
)
"""Rooms of more than forty seconds beside two others, the longest first."""


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
