"""A search in its own processes: the same answer, beside others, given up, after a kill."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from planner.advice import cards
from planner.estimate import estimate
from planner.plan import Plan
from planner.search import Wish, search
from planner.search.ask import port as ports
from planner.search.ask import searching
from planner.search.ask.port import Port
from planner.search.ask.searching import Mending, Searching
from planner.search.ask.worker import CHUNK, started
from planner.search.wish import PLACEMENT, USUAL
from planner.trial.evidence.stated_error import stated

PLAN = Plan(model="Qwen/Qwen2.5-1.5B", gpu="h100-80gb", gpus=1)
LITTLE = Wish(goal="fastest", free=("offload", "logits", "enforce_eager", "optimizer"))
"""More combinations than one process judges at once."""
LONG = Wish(
    goal="cheapest",
    free=(*USUAL, *PLACEMENT),
    max_gpus=64,
    cards=("l40s", "h100-80gb", "a100-80gb", "b200-180gb"),
)
"""Longer than any test waits."""
SECONDS = 240


def eventually(true: Callable[[], bool]) -> bool:
    """Whether it comes true while somebody would wait."""
    end = time.monotonic() + SECONDS
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


@pytest.fixture(scope="module")
def port() -> Iterator[Port]:
    found = Port()
    yield found
    found.close()


def test_it_answers_as_in_this_process_and_says_how_far_it_is(port: Port) -> None:
    one = Searching(PLAN, LITTLE, port=port)
    assert one.wait(SECONDS) and not one.running and one.error == ""
    here = search(PLAN, LITTLE)
    assert one.found is not None
    assert one.found.recommendations == here.recommendations
    assert one.found.ties == here.ties and one.found.front == here.front
    assert one.found.judged.plans == here.judged.plans
    assert one.share > 0 and here.judged.combinations > CHUNK[0]


def test_processes_that_were_warmed_are_those_that_answer() -> None:
    port = Port()
    try:
        port.warm()
        process = port.alive()
        one = Searching(PLAN, LITTLE, port=port)
        port.warm()  # while it searches it is warm
        assert one.wait(SECONDS) and one.found is not None
        assert port.alive() is process and process.poll() is None
    finally:
        port.close()


def test_given_up_it_ends_and_the_next_is_answered(port: Port) -> None:
    long = Searching(PLAN, Wish(max_gpus=64), port=port)
    waiting = Searching(PLAN, LITTLE, port=port)
    waiting.cancel()
    assert waiting.wait(SECONDS) and waiting.given_up
    long.cancel()
    assert long.wait(SECONDS) and long.given_up and long.found is None and long.error == ""
    after = Searching(PLAN, LITTLE, port=port)
    assert after.wait(SECONDS) and after.found is not None


def test_what_cannot_be_met_is_a_sentence(port: Port) -> None:
    packed = Plan(model="Qwen/Qwen2.5-1.5B", framework="verl", max_tokens_per_micro_batch=8192)
    one = Searching(packed, Wish(goal="largest-batch", free=()), port=port)
    assert one.wait(SECONDS) and one.error.startswith("micro_batch_size: ")


def test_a_killed_process_is_said_and_started_anew(port: Port) -> None:
    port.alive().kill()
    one = Searching(PLAN, Wish(free=()), port=port)
    assert one.wait(SECONDS) and (one.found is not None or "try again" in one.error)
    again = Searching(PLAN, Wish(free=()), port=port)
    assert again.wait(SECONDS) and again.found is not None


def test_a_short_search_ends_beside_a_long_one_of_another_visitor(port: Port) -> None:
    long = Searching(PLAN, LONG, port=port)
    assert eventually(lambda: long.doing != "Starting")
    short = Searching(PLAN, LITTLE, port=port)
    assert short.wait(SECONDS) and short.found is not None
    assert long.running
    long.cancel()
    assert long.wait(SECONDS) and long.given_up


def test_beyond_a_few_there_is_a_line_that_says_its_place_and_can_be_left() -> None:
    port = Port(most=1)
    try:
        first = Searching(PLAN, LONG, port=port)
        assert eventually(lambda: first.doing != "Starting")
        second = Searching(PLAN, LITTLE, port=port)
        assert eventually(lambda: second.doing == "Waiting, number 1 in line")
        third = Searching(PLAN, LITTLE, port=port)
        assert eventually(lambda: third.doing == "Waiting, number 2 in line")
        second.cancel()
        assert second.wait(SECONDS) and second.given_up
        assert eventually(lambda: third.doing == "Waiting, number 1 in line")
        first.cancel()
        assert third.wait(SECONDS) and third.found is not None
    finally:
        port.close()


def test_a_search_whose_page_has_gone_is_given_up_under_way_and_in_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "GONE_SECONDS", 0.2)
    port, here = Port(most=1), {"one": True, "other": True}
    try:
        one = Searching(PLAN, LONG, attended=lambda: here["one"], port=port)
        assert eventually(lambda: one.doing != "Starting")
        other = Searching(PLAN, LONG, attended=lambda: here["other"], port=port)
        assert eventually(lambda: other.doing.startswith("Waiting"))
        here["other"] = False
        assert other.wait(SECONDS) and other.given_up and other.abandoned
        assert one.running and not one.abandoned
        here["one"] = False
        assert one.wait(SECONDS) and one.given_up and one.abandoned and one.found is None
        after = Searching(PLAN, LITTLE, port=port)
        assert after.wait(SECONDS) and after.found is not None
    finally:
        port.close()


def test_a_page_that_is_away_for_a_moment_keeps_its_search(port: Port) -> None:
    asked: list[bool] = []

    def attended() -> bool:
        asked.append(True)
        return len(asked) > 10  # half a second after it began

    one = Searching(PLAN, LITTLE, attended=attended, port=port)
    assert one.wait(SECONDS) and one.found is not None and not one.abandoned


def test_of_several_pairs_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[bytes]] = []

    def counted() -> subprocess.Popen[bytes]:
        made.append(started())
        return made[-1]

    monkeypatch.setattr(ports, "started", counted)
    port = Port()
    try:
        two = [Searching(PLAN, LITTLE, port=port) for _ in range(2)]
        assert all(one.wait(SECONDS) and one.found is not None for one in two)
        assert len(made) == 2
        assert eventually(lambda: sum(one.poll() is None for one in made) == 1)
    finally:
        port.close()
    assert all(one.poll() is not None for one in made)


def test_cards_are_mended_there_as_in_this_process_beside_a_search(port: Port) -> None:
    every = [one for one in cards.choices(PLAN.changed(gpu="l4")) if one.gpu in ("l4", "a10")]
    long = Searching(PLAN, LONG, port=port)
    mending = Mending(PLAN, every, port=port)
    assert mending.wait(SECONDS) and mending.error == "" and long.running
    long.cancel()
    judge = lambda plan: stated(estimate(plan))  # noqa: E731
    assert mending.found == cards.mended(PLAN, every, judge) and mending.found
    assert mending.doing == "Making each fit" and mending.took_seconds > 0
    assert long.wait(SECONDS)
