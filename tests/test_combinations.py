"""Combinations of choices share what they are made of: each is still its own plan's estimate."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from planner.cost import cost
from planner.estimate import estimate
from planner.plan import Plan, try_plan
from planner.plan.frameworks import frameworks
from planner.plan.methods import methods
from planner.sweeps.combinations import Combinations
from planner.sweeps.grid import Mesh
from planner.sweeps.judged import Words
from planner.sweeps.table import rows
from planner.values.dealing import rest

TRAINER: dict[str, list[Any]] = {
    "sharding": ["fsdp2", "zero3", "ddp"],
    "logits": ["full", "fused"],
    "gradient_checkpointing": ["none", "full"],
    "finetuning": ["full", "lora"],
    "optimizer": ["adamw-fused", "adamw-8bit"],
}
CASES: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "grpo": (
        {"kl": "loss"},
        {**TRAINER, "reference": ["copy", "offloaded", "adapter-disabled"]},
    ),
    "engine": (
        {"kl": "none"},
        {
            "gpu": ["h100-80gb", "a100-80gb", "l40s"],
            "rollout": ["vllm-colocated", "hf"],
            "vllm_sleep_level": [0, 1, 2],
            "rollout_tensor_parallel": [1, 2],
            "enforce_eager": [False, True],
            "offload": ["none", "all-between-phases"],
            "empty_cache": ["never", "between-phases", "every-step"],
        },
    ),
    "memory savers": (
        {"kl": "none", "gradient_checkpointing": "full"},
        {
            "activation_offload": [False, True],
            "expandable_segments": [False, True],
            "reshard_after_forward": [False, True],
            "attention": ["sdpa", "flash"],
            "batch_shape": ["padded", "packed"],
            "dtype": ["bf16", "fp32"],
        },
    ),
    "ppo": (
        {"method": "ppo"},
        {**TRAINER, "critic": ["separate", "shared"]},
    ),
    "intuitor": (
        {"method": "intuitor"},
        {
            "self_certainty": ["full", "chunked-tokens", "chunked-vocabulary", "fused"],
            "self_certainty_gradient": [False, True],
            "logits": ["full", "chunked", "fused"],
            "sharding": ["fsdp2", "zero3"],
        },
    ),
    "dpo": (
        {"method": "dpo", "rollout": "none"},
        {**TRAINER, "reference": ["copy", "adapter-disabled", "cached-logprobs"]},
    ),
    "grade": (
        {"method": "grade", "model": "Qwen/Qwen2.5-0.5B", "response_tokens": 64},
        {
            "grade_step_checkpointing": [False, True],
            "finetuning": ["full", "lora"],
            "gradient_checkpointing": ["none", "full"],
        },
    ),
    "trainers": (
        {"kl": "none"},
        {
            "method": [*methods()],
            "framework": [*frameworks()],
            "optimizer_step": ["update", "in-backward"],
            "model": ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-4B"],
        },
    ),
}
SIZES: dict[str, list[Any]] = {"micro_batch_size": [1, 2], "response_tokens": [256, 1024]}
OTHER_SIZES: dict[str, dict[str, list[Any]]] = {
    "grade": {"micro_batch_size": [1, 2]},
    "engine": {"gpu_memory_utilization": [0.3, 0.55], "max_num_seqs": [64, 256]},
}


@pytest.mark.parametrize("name", CASES)
def test_every_combination_is_its_own_plans_estimate(name: str) -> None:
    fixed, choices = CASES[name]
    sizes = OTHER_SIZES.get(name, SIZES)
    plan = Plan(**{"model": "Qwen/Qwen2.5-1.5B", "gpus": 8, **fixed})
    drawn = np.random.default_rng(0)
    combinations = [
        {field: values[drawn.integers(len(values))] for field, values in choices.items()}
        for _ in range(40)
    ]
    compared = 0
    for numbers, columns in rows(plan, combinations, sizes):
        for row, number in enumerate(numbers):
            compared += _compare(plan, combinations[number], sizes, columns, row)
    assert compared >= 12, "too few of the combinations are plans to say anything"


def _compare(
    plan: Plan,
    changes: dict[str, Any],
    sizes: dict[str, list[Any]],
    columns: Any,
    row: int,
) -> int:
    compared = 0
    names = list(sizes)
    for at, values in enumerate(np.ndindex(*(len(each) for each in sizes.values()))):
        size = {field: sizes[field][values[place]] for place, field in enumerate(names)}
        if "micro_batch_size" in size:
            size["logprob_micro_batch_size"] = size["micro_batch_size"]
        if "response_tokens" in size:
            size["validation_response_tokens"] = size["response_tokens"]
        one, _ = try_plan({**plan.model_dump(), **changes, **size})
        if not columns["valid"][row, at]:  # a plan of its own would be filled up
            assert one is None or rest(one, one.micro_batch_size), (changes, size)
            continue
        assert one is not None, (changes, size)
        compared += 1
        footprint = estimate(one)
        expected = {
            "requested_bytes": footprint.worst.requested_bytes,
            "reserved_bytes": footprint.worst.reserved_bytes,
            "device_bytes": footprint.device_bytes,
            "high_bytes": max(phase.most_bytes for phase in footprint.phases),
            "trainer_bytes": footprint.trainer_bytes,
            "engine_bytes": footprint.engine_bytes,
            "host_bytes": footprint.host_bytes,
            "budget_bytes": footprint.budget_bytes,
            **{f"phase: {phase.name}": phase.device_bytes for phase in footprint.phases},
        }
        found = {name: int(columns[name][row, at]) for name in expected}
        assert found == expected, (changes, size)
        words = {"verdict": footprint.verdict.word, "worst_phase": footprint.worst.name}
        for name, word in words.items():
            column: Words = columns[name]
            assert column.words[column.codes[row, at]] == word, (changes, size)
        _about(columns["step_seconds"][row, at], footprint.step_seconds)
        _about(columns["usd_run"][row, at], cost(footprint).usd_run)
    return compared


def _about(found: float, expected: float | None) -> None:
    if expected is None:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(expected)


SCORING = ("old log-probs", "reference log-probs", "values", "policy forward", "policy backward")


def small(method: str, framework: str) -> Plan | None:
    """A plan of the method and framework; None where there is none."""
    given = {"model": "Qwen/Qwen2.5-1.5B", "method": method, "framework": framework, "gpus": 2}
    for sharding in ("fsdp2", "ddp"):
        plan, _ = try_plan({**given, "response_tokens": 64, "sharding": sharding})
        if plan is not None:
            return plan
    return None


EVERY = {f"{each[0]} {each[1]}": small(*each) for each in product(methods(), frameworks())}
PLANS = {name: plan for name, plan in EVERY.items() if plan is not None}


def test_every_method_has_a_plan() -> None:
    assert {name.split()[0] for name in PLANS} == set(methods())


@pytest.mark.parametrize("name", PLANS)
def test_a_phase_that_does_not_read_a_choice_is_made_once(name: str) -> None:
    """What stands beside a pass differs by optimizer; nothing of the pass does."""
    plan = PLANS[name]
    choices = {"empty_cache": ["never", "every-step"]}
    if plan.method != "grade":  # its graph is told with all that stands in each of its instants
        choices["optimizer"] = ["adamw-fused", "adamw-8bit"]
    plans = [plan.model_copy(update=changes) for changes in each_of(choices)]
    combinations = Combinations(Mesh(SIZES), choices)
    found = [one for one in combinations.judged_by(plans) if one is not None]
    assert len(found) == len(plans)
    made: dict[str, set[int]] = {}
    for one in found:
        for slot in one.slots:
            made.setdefault(slot.kind.name, set()).add(id(slot.pairs[0][0]))
    scored = [name for name in SCORING if name in made]
    assert scored and {name: len(made[name]) for name in scored} == dict.fromkeys(scored, 1)


def each_of(choices: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(choices, each, strict=True)) for each in product(*choices.values())]
