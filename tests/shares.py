"""How the tests share out over processes.

A file's tests stay together, so that what a module or a session starts once (a server and a
Chromium, a Ray head, PostgreSQL, the frameworks' own processes) is started in one process; files
that share such a thing are one room. Rooms that take long come first, so that no process is left
alone with one at the end.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

SHARED = (
    *("tests/browser/test_app", "tests/browser/test_trial", "tests/browser/"),
    *("tests/launch/", "tests/trial/history/"),
)
"""Files that share what a session starts. A browser's are three rooms, of two minutes and of five:
in one process alone they would take as long as all the others together."""

HEAVY = (
    "tests/browser/",
    "tests/launch/",
    "tests/trial/test_dispatch.py",
    "tests/browser/test_app",
    "tests/browser/test_trial",
    "tests/dryrun/test_spot.py",
    "tests/accuracy/test_framework_grid.py",
    "tests/dryrun/test_depth.py",
    "tests/formulas/test_activations_peaks.py",
    "tests/frameworks/test_verl_batches.py",
    "tests/dryrun/test_real_runs.py",
    "tests/dryrun/test_rounds.py",
    "tests/trial/test_framework_steps.py",
    "tests/dryrun/test_real_fields.py",
    "tests/frameworks/test_verl_step.py",
    "tests/frameworks/test_verl_options.py",
    "tests/trial/test_process.py",
    "tests/accuracy/test_grid.py",
    "tests/frameworks/test_trl_offloading.py",
    "tests/sampling/run/test_ray_data.py",
    "tests/dryrun/test_linear_attention.py",
    "tests/methods/test_a_folder_is_enough.py",
    "tests/frameworks/test_a_folder_is_enough.py",
    "tests/search/test_answer.py",
    "tests/frameworks/test_verl_seams.py",
    "tests/formulas/test_activations_saved.py",
    "tests/accuracy/test_gpu.py",
    "tests/ui/test_pages.py",
    "tests/methods/test_grade_memory.py",
    "tests/trial/history/",
    "tests/frameworks/test_trl_sharded.py",
    "tests/frameworks/test_trl_packages.py",
    "tests/trial/test_memory.py",
    "tests/search/test_ask.py",
    "tests/accuracy/test_report.py",
    "tests/frameworks/test_trl_frozen_adapter.py",
    "tests/sampling/run/test_run.py",
    "tests/catalog/test_rebuild.py",
    "tests/formulas/test_logits.py",
    "tests/benchmark/test_command.py",
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
