"""A plan is refused in a sentence or estimated in numbers; there is nothing third."""

from __future__ import annotations

import os
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings

from accuracy.pinned.drawing import MODELS, one_of_each
from planner.estimate import estimate
from planner.plan import Plan, try_plan
from planner.plan.methods import methods
from random_plans import plans

RANDOM_PLANS = int(os.environ.get("HEADROOM_RANDOM_PLANS", "300"))
"""20,000 in ``scripts/test --full``."""

SHARDINGS = ("none", "ddp", "zero2", "zero3", "fsdp2")
METHODS = tuple(methods())
ROLLOUTS = ("none", "in-graph", "hf", "vllm-colocated", "vllm-separate")


@pytest.mark.parametrize("model", one_of_each())
def test_every_combination_ends_in_numbers_or_in_sentences(model: str) -> None:
    accepted = 0
    for sharding, method, rollout in product(SHARDINGS, METHODS, ROLLOUTS):
        gpus = 1 if sharding == "none" else 8
        plan, problems = try_plan(
            {
                "model": model,
                "method": method,
                "sharding": sharding,
                "rollout": rollout,
                "gpus": gpus,
                "attention": "eager",
                "prompt_tokens": 256,
                "response_tokens": 256,
            }
        )
        if plan is None:
            assert problems
            for problem in problems:
                assert problem.field in Plan.model_fields
                assert problem.message.endswith((".", "?")) and "\n" not in problem.message
        else:
            accepted += 1
            assert estimate(plan).device_bytes > 0
    assert accepted


@settings(
    max_examples=RANDOM_PLANS, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(plans((*MODELS, *one_of_each())))
def test_what_is_accepted_is_estimated(plan: Plan) -> None:
    assert estimate(plan).device_bytes > 0
