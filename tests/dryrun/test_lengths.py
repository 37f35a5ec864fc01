"""Steps of different lengths strung together, by hand."""

from __future__ import annotations

import pytest

from planner.dryrun.allocator import AllocatorSettings
from planner.dryrun.logs.lengths import chained, fragmentation, shortened
from planner.dryrun.logs.log import BIRTH, DEATH, PHASE, STEP, Log, Made
from planner.plan import Plan
from planner.units import MIB

WEIGHT = 40 * MIB


def log_of(*sizes: int) -> Log:
    """A weight that stays, and a step whose activations live one after the other."""
    log = Log()

    def birth(key: int, size: int) -> tuple[int, int, int]:
        log.made[key] = Made(size, "op", "", "policy", "activations", (size,), "int8")
        return (BIRTH, key, size)

    log.events = [birth(0, WEIGHT), (STEP, 0, 0), (STEP, 1, 0)]
    log.events.append((PHASE, log.name("policy forward"), 1))
    for number, size in enumerate(sizes, start=1):
        log.events += [birth(number, size), (DEATH, number, size)]
    log.events.append((PHASE, 0, 0))
    return log


def test_a_longer_step_finds_no_block_that_fits() -> None:
    """A 60 MiB segment holds no 100 MiB tensor; a 100 MiB one holds the 60 MiB tensor."""
    short, long = log_of(60 * MIB), log_of(100 * MIB)
    settings = AllocatorSettings()
    falling, _ = fragmentation([long, short], settings)
    assert falling.order == "longest first"
    assert falling.reserved_bytes == WEIGHT + 100 * MIB
    rising, _ = fragmentation([short, long], settings)
    assert rising.reserved_bytes == WEIGHT + 60 * MIB + 100 * MIB
    assert rising.allocated_bytes == WEIGHT + 100 * MIB


def test_what_stays_is_the_same_storage_in_every_step() -> None:
    chain = chained([log_of(10), log_of(20), log_of(30)])
    births = [key for kind, key, value in chain.events if kind == BIRTH and value == WEIGHT]
    assert births == [0]
    assert sum(1 for kind, _, _ in chain.events if kind == DEATH) == 3


def test_steps_of_another_plan_are_refused() -> None:
    other = log_of(10)
    other.made[0] = other.made[0]._replace(size_bytes=1)
    with pytest.raises(ValueError, match="lengths"):
        chained([log_of(10), other])


def test_shortened_rows() -> None:
    plan = Plan(prompt_tokens=100, response_tokens=2000)
    short = shortened(plan, 0.3)
    assert (short.prompt_tokens, short.response_tokens) == (30, 600)
