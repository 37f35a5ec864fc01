"""A search in its own processes: the same answer, given up, and after its process was killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planner.plan import Plan
from planner.search import Wish, search
from planner.search.ask.searching import Port, Searching
from planner.search.ask.worker import CHUNK

PLAN = Plan(model="Qwen/Qwen2.5-1.5B", gpu="h100-80gb", gpus=1)
LITTLE = Wish(goal="fastest", free=("offload", "logits", "enforce_eager", "optimizer"))
"""More combinations than one process judges at once."""
SECONDS = 240


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
    assert one.wait(SECONDS) and (one.found is not None or "ask again" in one.error)
    again = Searching(PLAN, Wish(free=()), port=port)
    assert again.wait(SECONDS) and again.found is not None
