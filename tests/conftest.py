"""What holds for every test: folders, processes, no clock, what collecting costs, evidence."""

from __future__ import annotations

import gc
import os
import sys

# Nearly all that is imported and collected lives until the end: it is not searched meanwhile.
gc.disable()

# The processes share two cores; torch, BLAS and the tests' own processes would each start as many
# threads as there are cores, and threads that spin take another process's core from it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# As Streamlit has them: its processes and all others ask one server for forks (planner.forks).
os.environ.update(MPLBACKEND="Agg", MAPBOX_API_KEY="")

from typing import Any  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402

import evidence  # noqa: E402
from own_folders import own_data  # noqa: E402
from planner.forks import client  # noqa: E402
from shares import Rooms, heaviest_first  # noqa: E402

__all__ = ["own_data"]

ENVIRONMENT = {*os.environ}
"""Names of variables that the process began with."""
OWN = (client.SETTING, "PYTEST_")
"""What is put there on purpose."""
MANY_MODULES = 20
"""So many new ones since objects were last set aside make a collection slow."""

hypothesis.settings.register_profile(
    "tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")  # no test looks at the wall clock


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("evidence")
    group.addoption("--full", action="store_true", help="compute every case, replay none")
    group.addoption(
        "--write-evidence",
        action="store_true",
        help="with --full: write what was computed to tests/evidence",
    )


def pytest_configure(config: pytest.Config) -> None:
    evidence.full = config.getoption("--full")
    if config.getoption("--write-evidence") and not evidence.full:
        raise pytest.UsageError("--write-evidence is of --full: give both")
    # The whole suite pays once for the imports of workers; a file's tests begin them as people do.
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        client.serve()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Rooms:
    return Rooms(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    # Nor while they run: a dry run collects after every phase, and each time nearly a million
    # objects that no test can free would be looked through.
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        items.sort(key=lambda item: heaviest_first(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """What another process has computed, which it sent when it ended."""
    gathered, names = getattr(node, "workeroutput", {}).get("evidence", ({}, {}))
    for family, cases in names.items():
        evidence.names[family] = sorted({*evidence.names.get(family, ()), *cases})
    for family, cases in gathered.items():
        evidence.gathered.setdefault(family, {}).update(cases)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["evidence"] = (evidence.gathered, evidence.names)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what replaying no longer spares: a commit that leaves it so costs every later run."""
    counts = {} if evidence.full else evidence.outdated()
    if counts:
        said = ", ".join(f"{family} {count}" for family, count in sorted(counts.items()))
        terminalreporter.section("evidence")
        terminalreporter.line(
            f"{sum(counts.values())} figures were computed anew, since what decides them has "
            f"changed ({said}): scripts/evidence commits them, and the next run is shorter."
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.getoption("--write-evidence") and not hasattr(config, "workeroutput"):
        evidence.write()


_modules_set_aside = 0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set aside what the test before imported, which every collection since has looked through."""
    if len(sys.modules) > _modules_set_aside + MANY_MODULES:
        _set_aside()


@pytest.fixture(scope="module", autouse=True)
def _environment_is_as_it_began() -> None:
    """Take out of it what collecting, and a module before, has imported and that has put there.

    Whoever inherits that is no fork (:mod:`planner.forks`): it would import everything again.
    """
    for name in {*os.environ} - ENVIRONMENT:
        if not name.startswith(OWN):
            del os.environ[name]


@pytest.fixture(scope="module", autouse=True)
def _known_objects_are_not_searched() -> None:
    """Set aside, a module at a time, what lives anyway: modules, tests, caches.

    A collection walks every object it may free. The benchmark collects after each part, real
    steps before each run: half a second each among the objects of torch and 6,000 tests.
    """
    _set_aside()


def _set_aside() -> None:
    global _modules_set_aside
    gc.collect()
    gc.freeze()
    _modules_set_aside = len(sys.modules)
