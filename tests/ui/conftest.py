"""No page of these tests starts a process or reads a stored answer: the port is a fake."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from streamlit.components.v2 import manifest_scanner

from planner.background import GivenUp
from planner.dryrun.ask.answer import DryRun
from planner.plan import Plan
from planner.search.ask import searching
from planner.ui import compute
from planner.ui.dry_run import known as dry_run
from planner.ui.plan import advice
from planner.ui.trial import page as trial


class FakePort:
    """Answers with what a test puts in; waits while ``held``, as a worker would take its time."""

    def __init__(self) -> None:
        self.asked: list[Plan] = []
        self.stored: Callable[[Plan], DryRun | None] = lambda plan: None
        self.outcome: Callable[[Plan], DryRun] | Exception = AssertionError("not prepared")
        self.go = threading.Event()
        self.go.set()
        self.warmed = threading.Event()

    def run(
        self,
        plan: Plan,
        *,
        snapshot: Path | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> DryRun:
        self.asked.append(plan)
        while not self.go.wait(0.01):
            if cancelled():
                raise GivenUp
        if isinstance(self.outcome, Exception):
            raise self.outcome
        if snapshot is not None:
            snapshot.write_bytes(b"allocations")
        return self.outcome(plan)

    def remembered(self, plan: Plan) -> DryRun | None:
        return self.stored(plan)

    def warm_up(self) -> None:
        self.warmed.set()


@pytest.fixture(scope="session", autouse=True)
def packages_are_read_once() -> Iterator[None]:
    """Streamlit reads what every installed package says of itself for each app that is made."""
    with pytest.MonkeyPatch.context() as patch:
        scan = cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


@pytest.fixture(autouse=True)
def own_trials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Trials and their history in a folder of the test; a machine without cards."""
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("HEADROOM_HISTORY_URL", raising=False)
    monkeypatch.delenv("HEADROOM_TRIALS", raising=False)
    monkeypatch.setattr(trial, "local_cards", lambda: ())
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def advice_begins_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody types meanwhile."""
    monkeypatch.setattr(advice, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(compute, "SHOWING_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def no_search_is_warmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes are not those of a page in process."""
    monkeypatch.setattr(searching.WORKERS, "warm", lambda: None)


@pytest.fixture(autouse=True)
def fake_port(monkeypatch: pytest.MonkeyPatch) -> FakePort:
    port = FakePort()
    monkeypatch.setattr(dry_run, "port", lambda: port)
    return port
