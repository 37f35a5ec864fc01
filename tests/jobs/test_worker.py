"""A process that is asked, and kept: what it says, how it ends, and who comes after."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.background import GivenUp, Refused
from planner.forks.client import SETTING
from planner.jobs import worker
from planner.jobs.worker import Worker, Workers


def begun() -> Worker:
    own = {name: value for name, value in os.environ.items() if name != SETTING}
    path = os.pathsep.join((str(Path(__file__).parent), own.get("PYTHONPATH", "")))
    return Worker("answers", environment={**own, "PYTHONPATH": path}, what="The test")


@pytest.fixture
def workers() -> Iterator[Workers]:
    found = Workers(begun)
    yield found
    found.close()


def test_what_a_library_prints_is_no_answer(workers: Workers) -> None:
    told: list[Any] = []
    assert workers.ask(["tell", 1, "two"], told=told.append) == 2
    assert told == [1, "two"]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("refuse", "It is refused."),
        ("fail", "It failed: KeyError: 'a key'."),
        ("much", "It failed: it needs more memory than it may have (2 GiB)."),
    ],
)
def test_a_question_without_an_answer_does_not_end_the_process(
    workers: Workers, request_: str, said: str
) -> None:
    workers.warm()
    (kept,) = workers._idle
    with pytest.raises(Refused) as error:
        workers.ask(request_)
    assert str(error.value) == said
    assert workers._idle == [kept] and workers.ask("again") == "again"


def test_one_that_says_nothing_is_ended(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    workers.warm()
    (kept,) = workers._idle
    assert workers.ask("ready") == "ready"
    monkeypatch.setattr(worker, "SILENT_SECONDS", 0.2)
    with pytest.raises(Refused, match="^The test did not respond for 0 s and was stopped.$"):
        workers.ask("wait")
    assert kept.process.poll() is not None and workers._idle == []


def test_who_waits_in_line_can_leave_it(workers: Workers) -> None:
    over = threading.Event()
    ended: list[type[BaseException]] = []

    def first() -> None:
        try:
            workers.ask("wait", over.is_set)
        except GivenUp:
            ended.append(GivenUp)

    thread = threading.Thread(target=first)
    thread.start()
    places: list[int] = []
    with pytest.raises(GivenUp):
        while True:
            workers.ask("next", lambda: len(places) > 2, in_line=places.append)
    over.set()
    thread.join()
    assert set(places) == {1} and ended == [GivenUp]
    assert workers.ask("next") == "next"
