"""Buttons of random plans are pressed, and what each promised is held against what comes."""

from __future__ import annotations

import random
import time

from accuracy import presses
from accuracy.presses import Promise
from planner.plan.presets import presets

SECONDS = 45.0
"""Of the processor, in which plan after plan is drawn; the command presses those of 300."""


def test_no_button_of_a_random_plan_promises_what_does_not_come() -> None:
    seed, began, pressed = random.SystemRandom().randrange(10**9), time.process_time(), 0
    while time.process_time() - began < SECONDS:
        seed += 1
        plan = presses.drawn(seed)
        for one in presses.promises(plan, seed):
            broken = [*presses.pressed(plan, one)]
            assert not broken, (seed, broken)
            pressed += 1
    assert pressed > 100


def test_a_broken_promise_is_seen() -> None:
    plan = presets()["grpo-7b@1"].plan
    able = next(presses.promises(plan))
    assert not [*presses.pressed(plan, able)]
    wrong: tuple[Promise, ...] = (
        able._replace(device_bytes=(able.device_bytes or 0) + 1),
        able._replace(word="tight"),
        able._replace(step_seconds=1.01 * (able.step_seconds or 0.0)),
        able._replace(claims=("same peak",)),
        able._replace(claims=("something that nothing checks",)),
        able._replace(changes={"gpus": 7, "prompts_per_step": 3}),
    )
    for one in wrong:
        assert [*presses.pressed(plan, one)], one


def test_what_is_drawn_differs_in_verdict_method_and_framework() -> None:
    plans = [presses.drawn(seed) for seed in range(60)]
    assert len({plan.method for plan in plans}) >= 5
    assert len({plan.framework for plan in plans}) == 3
    assert {presses.judge(plan).verdict.word for plan in plans} >= {"fits", "out of memory"}
