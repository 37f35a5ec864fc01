"""A search in its own processes: the same answer, beside others, given up, after a kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from planner.advice import cards
from planner.estimate import estimate
from planner.jobs.worker import Worker, Workers
from planner.plan import Plan
from planner.search import Wish, search
from planner.search.ask import searching, worker
from planner.search.ask.searching import MOST_AT_ONCE, Mending, Searching
from planner.search.ask.worker import CHUNK, begun
from planner.search.judging import Rows
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
def workers() -> Iterator[Workers]:
    found = Workers(begun, MOST_AT_ONCE)
    yield found
    found.close()


def test_it_answers_as_in_this_process_and_says_how_far_it_is(workers: Workers) -> None:
    one = Searching(PLAN, LITTLE, workers=workers)
    assert one.wait(SECONDS) and not one.running and one.error == ""
    here = search(PLAN, LITTLE)
    assert one.found is not None
    assert one.found.recommendations == here.recommendations
    assert one.found.ties == here.ties and one.found.front == here.front
    assert one.found.judged.plans == here.judged.plans
    assert one.share > 0 and here.judged.combinations > CHUNK[0]


def test_processes_that_were_warmed_are_those_that_answer() -> None:
    workers = Workers(begun, MOST_AT_ONCE)
    try:
        workers.warm()
        (worker,) = workers._idle
        one = Searching(PLAN, LITTLE, workers=workers)
        workers.warm()  # while it searches it is warm
        assert one.wait(SECONDS) and one.found is not None
        assert workers._idle == [worker] and worker.alive
    finally:
        workers.close()


def test_given_up_it_ends_and_the_next_is_answered(workers: Workers) -> None:
    long = Searching(PLAN, Wish(max_gpus=64), workers=workers)
    waiting = Searching(PLAN, LITTLE, workers=workers)
    waiting.cancel()
    assert waiting.wait(SECONDS) and waiting.given_up
    long.cancel()
    assert long.wait(SECONDS) and long.given_up and long.found is None and long.error == ""
    after = Searching(PLAN, LITTLE, workers=workers)
    assert after.wait(SECONDS) and after.found is not None


def test_what_cannot_be_met_is_a_sentence(workers: Workers) -> None:
    packed = Plan(model="Qwen/Qwen2.5-1.5B", framework="verl", max_tokens_per_micro_batch=8192)
    one = Searching(packed, Wish(goal="largest-batch", free=()), workers=workers)
    assert one.wait(SECONDS) and one.error.startswith("micro_batch_size: ")


def test_a_killed_process_is_said_and_started_anew(workers: Workers) -> None:
    workers.warm()
    workers._idle[0].process.kill()
    one = Searching(PLAN, Wish(free=()), workers=workers)
    assert one.wait(SECONDS) and (one.found is not None or "try again" in one.error)
    again = Searching(PLAN, Wish(free=()), workers=workers)
    assert again.wait(SECONDS) and again.found is not None


def test_a_short_search_ends_beside_a_long_one_of_another_visitor(workers: Workers) -> None:
    long = Searching(PLAN, LONG, workers=workers)
    assert eventually(lambda: long.doing != "Starting")
    short = Searching(PLAN, LITTLE, workers=workers)
    assert short.wait(SECONDS) and short.found is not None
    assert long.running
    long.cancel()
    assert long.wait(SECONDS) and long.given_up


def test_beyond_a_few_there_is_a_line_that_says_its_place_and_can_be_left() -> None:
    workers = Workers(begun, most=1)
    try:
        first = Searching(PLAN, LONG, workers=workers)
        assert eventually(lambda: first.doing != "Starting")
        second = Searching(PLAN, LITTLE, workers=workers)
        assert eventually(lambda: second.doing == "Waiting, number 1 in line")
        third = Searching(PLAN, LITTLE, workers=workers)
        assert eventually(lambda: third.doing == "Waiting, number 2 in line")
        second.cancel()
        assert second.wait(SECONDS) and second.given_up
        assert eventually(lambda: third.doing == "Waiting, number 1 in line")
        first.cancel()
        assert third.wait(SECONDS) and third.found is not None
    finally:
        workers.close()


def test_a_search_whose_page_has_gone_is_given_up_under_way_and_in_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "GONE_SECONDS", 0.2)
    workers, here = Workers(begun, most=1), {"one": True, "other": True}
    try:
        one = Searching(PLAN, LONG, attended=lambda: here["one"], workers=workers)
        assert eventually(lambda: one.doing != "Starting")
        other = Searching(PLAN, LONG, attended=lambda: here["other"], workers=workers)
        assert eventually(lambda: other.doing.startswith("Waiting"))
        here["other"] = False
        assert other.wait(SECONDS) and other.given_up and other.abandoned
        assert one.running and not one.abandoned
        here["one"] = False
        assert one.wait(SECONDS) and one.given_up and one.abandoned and one.found is None
        after = Searching(PLAN, LITTLE, workers=workers)
        assert after.wait(SECONDS) and after.found is not None
    finally:
        workers.close()


def test_a_page_that_is_away_for_a_moment_keeps_its_search(workers: Workers) -> None:
    asked: list[bool] = []

    def attended() -> bool:
        asked.append(True)
        return len(asked) > 10  # half a second after it began

    one = Searching(PLAN, LITTLE, attended=attended, workers=workers)
    assert one.wait(SECONDS) and one.found is not None and not one.abandoned


def test_of_several_pairs_one_is_kept() -> None:
    made: list[Worker] = []

    def counted() -> Worker:
        made.append(begun())
        return made[-1]

    workers = Workers(counted, most=2)
    try:
        two = [Searching(PLAN, LITTLE, workers=workers) for _ in range(2)]
        assert all(one.wait(SECONDS) and one.found is not None for one in two)
        assert len(made) == 2
        assert eventually(lambda: sum(one.alive for one in made) == 1)
    finally:
        workers.close()
    assert not any(one.alive for one in made)


def test_cards_are_mended_there_as_in_this_process_beside_a_search(workers: Workers) -> None:
    every = [one for one in cards.choices(PLAN.changed(gpu="l4")) if one.gpu in ("l4", "a10")]
    long = Searching(PLAN, LONG, workers=workers)
    mending = Mending(PLAN, every, workers=workers)
    assert mending.wait(SECONDS) and mending.error == "" and long.running
    long.cancel()
    judge = lambda plan: stated(estimate(plan))  # noqa: E731
    assert mending.found == cards.mended(PLAN, every, judge) and mending.found
    assert mending.doing == "Making each fit" and mending.took_seconds > 0
    assert long.wait(SECONDS)


def test_what_a_failed_search_has_left_is_no_answer_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge, own = worker.Two(), worker.rows_of

    def fails(*asked: Any) -> Rows:
        raise RuntimeError("once")

    monkeypatch.setattr(worker, "rows_of", fails)
    with pytest.raises(RuntimeError, match="once"):
        search(PLAN, LITTLE, judge=judge)
    monkeypatch.setattr(worker, "rows_of", own)
    small = Wish(goal="fastest", free=("offload", "logits", "enforce_eager", "sharding"))
    found, here = search(PLAN, small, judge=judge), search(PLAN, small)
    assert found.recommendations == here.recommendations and found.front == here.front
    judge.alive().end()
