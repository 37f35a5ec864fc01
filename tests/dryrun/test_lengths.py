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
        category = "parameters" if key == 0 else "activations"
        log.made[key] = Made(size, "op", "", "policy", category, (size,), "int8")
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


def with_batch(rows: int, activation: int) -> Log:
    """The same step with a batch that its trainer put on the GPU before it, and drops in it."""
    log = log_of(activation)
    log.made[9] = Made(rows, "op", "", "policy", "activations", (rows,), "int8")
    log.events[1:1] = [(BIRTH, 9, rows)]
    log.events[-1:-1] = [(DEATH, 9, rows), (BIRTH, 8, rows)]
    log.made[8] = log.made[9]
    return log


def test_a_batch_on_the_gpu_before_its_step_has_each_steps_own_size() -> None:
    """TRL's trainers prepare the next batch before the step that meets it."""
    chain = chained([with_batch(64, 10), with_batch(48, 8), with_batch(32, 6)])
    alive: dict[int, int] = {}
    highest = 0
    for kind, key, value in chain.events:
        if kind == BIRTH:
            assert value == chain.made[key].size_bytes
            alive[key] = value
        elif kind == DEATH:
            assert alive.pop(key) == value
        highest = max(highest, sum(alive.values()))
    assert sorted(alive.values()) == [32, WEIGHT]
    assert highest == WEIGHT + 64 + 10
    births = [value for kind, _, value in chain.events if kind == BIRTH and value in (48, 32)]
    assert births == [48, 48, 32, 32]


def test_steps_of_another_plan_are_refused() -> None:
    other = log_of(10)
    other.made[0] = other.made[0]._replace(size_bytes=1)
    with pytest.raises(ValueError, match="lengths"):
        chained([log_of(10), other])


def test_shortened_rows() -> None:
    plan = Plan(prompt_tokens=100, response_tokens=2000)
    short = shortened(plan, 0.3)
    assert (short.prompt_tokens, short.response_tokens) == (30, 600)
