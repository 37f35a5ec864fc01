"""Random valid plans, over all methods, frameworks and shardings.

Fields are drawn freely and those that the plan's rules blame are left to the defaults,
so nearly every draw ends in a valid plan without repeating the rules here.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from planner.catalog.model_catalog import models as catalog_models
from planner.plan import Plan, choices, try_plan
from planner.plan.fieldtext import KINDS

SEED = 41
MODELS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-4B")
CARDS = ("h100-80gb", "a100-80gb", "rtx-4090")
SIZES = (1, 2, 4, 8, 16, 64, 128, 512)
TOKENS = (1, 17, 128, 512, 2048, 16_384, 131_072)
ROW = 128
"""Most tokens of a row in a third of the plans: a longer row's loss hides what sharding does."""
LENGTHS = ("prompt_tokens", "response_tokens")
SHORT_TOKENS = (1, 17, 40, 64)
"""Of a prompt and of a response in such a row."""
SHARE = 0.2
"""Of the fields that a plan sets beside those that every plan sets."""
OFTEN = ("offload", "logits", "batch_shape", "micro_batch_size", "reference")
"""Fields that every second plan sets: more of its memory's shape hangs on them."""
ALWAYS = ("finetuning", "rollout")
"""Fields that every plan sets: of what is drawn for them the rules refuse the most."""
TRIES = 40
"""Draws after which a method, a framework and a sharding are held to exclude each other."""
FIRST = 30
"""Plans that together have as many pairs as possible of a method, a framework and a sharding."""


def one_of_each() -> tuple[str, ...]:
    """The smallest model of every family, of those that a dry run measured and of the others."""
    found: dict[str, str] = {}
    for model in sorted(catalog_models(), key=lambda model: model.params or 0):
        if model.architecture is not None:
            found.setdefault(model.architecture.family, model.id)
    return tuple(found.values())


def values_of(field: str, models: Sequence[str] = MODELS) -> Sequence[Any]:
    """What a field of a plan is drawn from."""
    special: Mapping[str, Sequence[Any]] = {
        "model": models,
        "critic_model": ("", *models),
        "reward_model": ("", *models),
        "gpu": CARDS,
        "gpu_bytes": (0, 2**34, 2**40),
        "host_ram_per_node": (0, 2**38, 2**42),
        "length_distribution": ("", "1~hist_100~1_300~1"),
        "lora_targets": ("all-linear", "q_proj,v_proj"),
        "gpu_memory_utilization": (0.2, 0.5, 0.85),
        "price_per_gpu_hour": (0.0, 2.5),
        "max_tokens_per_micro_batch": (0, 4096, 65_536),
        "vllm_sleep_level": (0, 1, 2),
        "temperature": (0.7, 1.0),
        "lora_dropout": (0.0, 0.1),
    }
    if field in special:
        return special[field]
    if choices(field):
        return choices(field)
    if KINDS[field] is bool:
        return (False, True)
    if KINDS[field] is int:
        return TOKENS if field.endswith("_tokens") else SIZES
    return (Plan.model_fields[field].default,)


def repaired(values: Mapping[str, Any], kept: Collection[str] = ()) -> Plan | None:
    """The plan of these values without those that the rules blame; None if a kept one has to go."""
    left = dict(values)
    while True:
        plan, problems = try_plan(left)
        if plan is not None:
            return plan
        blamed = {problem.field for problem in problems} & left.keys()
        gone = (blamed or left.keys()) - {*kept}
        if not gone:
            return None
        for field in gone:
            del left[field]


def drawn(count: int) -> list[Plan]:
    """Plans of a fixed seed: each method on each framework as often, its shardings in turn.

    The first :data:`FIRST` cover the most, so whoever takes a few takes those.
    """
    dice = random.Random(SEED)
    pairs = product(choices("method"), choices("framework"))
    kinds = [deque((*pair, sharding) for sharding in choices("sharding")) for pair in pairs]
    found: dict[Plan, None] = {}
    while len(found) < count:
        for shardings in kinds:
            while shardings:
                kind = shardings.popleft()
                plan = _one(dice, *kind, short=dice.random() < 1 / 3)
                if plan is not None:
                    shardings.append(kind)
                    found[plan] = None
                    break
    return _covering([*found][:count])


def _one(
    dice: random.Random, method: str, framework: str, sharding: str, *, short: bool
) -> Plan | None:
    models = (*MODELS, *one_of_each())
    for _ in range(TRIES):
        values = {
            field: dice.choice(values_of(field, models))
            for field in Plan.model_fields
            if field in ALWAYS or dice.random() < (0.5 if field in OFTEN else SHARE)
        }
        kept = {"method": method, "framework": framework, "sharding": sharding}
        kept["model"] = dice.choice(models)
        values["gpus"] = 1 if sharding == "none" else dice.choice((2, 4, 8, 8, 16, 64))
        if short:
            values |= {name: dice.choice(SHORT_TOKENS) for name in LENGTHS}
        plan = repaired({**values, **kept}, kept)
        if plan is not None and short == (plan.prompt_tokens + plan.response_tokens <= ROW):
            return plan
    return None


def _covering(plans: Sequence[Plan]) -> list[Plan]:
    """The same plans, those first that have the most pairs that no plan before has."""
    left, first, seen = [*plans], list[Plan](), set[tuple[str, ...]]()
    while left and len(first) < FIRST:
        best = max(left, key=lambda plan: len({*_pairs(plan)} - seen))
        first.append(best)
        left.remove(best)
        seen |= {*_pairs(best)}
    return [*first, *left]


def _pairs(plan: Plan) -> Iterator[tuple[str, ...]]:
    short = str(plan.prompt_tokens + plan.response_tokens <= ROW)
    yield from combinations((plan.method, plan.framework, plan.sharding, short), 2)
