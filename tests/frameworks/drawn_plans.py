"""Random plans that TRL's own scripts run, or a program around transformers' Trainer."""

from __future__ import annotations

import random
from collections.abc import Iterator

from accuracy.pinned.drawing import ALWAYS, MODELS, OFTEN, one_of_each, repaired, values_of
from planner.launch.export import fitted
from planner.launch.launch import CannotExpress
from planner.plan import Plan

METHODS = {"trl": ("grpo", "grpo", "rloo", "sft"), "hf_trainer": ("sft",)}
SHARED = (*ALWAYS, *OFTEN, "sharding", "kl", "variation", "dtype", "master_dtype", "optimizer")
"""Fields that most plans set: more of the settings hang on them."""
OWN = {
    "hf_trainer": (
        *("finetuning", "lora_targets", "lora_rank", "liger", "activation_offload", "offload"),
        *("gradient_checkpointing", "empty_cache", "attention"),
    )
}
"""The same of one framework alone."""


def drawn(framework: str, count: int, seed: int) -> Iterator[Plan]:
    """Plans by lot, each made what the framework can run."""
    dice = random.Random(seed)
    models = (*MODELS, *one_of_each())
    while count:
        often = (*SHARED, *OWN.get(framework, ()))
        values = {
            field: dice.choice(values_of(field, models))
            for field in Plan.model_fields
            if dice.random() < (0.6 if field in often else 0.2)
        }
        kept = {"method": dice.choice(METHODS[framework]), "framework": framework}
        kept["model"] = dice.choice(models)
        values["gpus"] = dice.choice((1, 2, 4, 8, 8, 16))
        plan = repaired({**values, **kept}, kept)
        if plan is not None:
            try:
                plan = fitted(plan, framework)
            except CannotExpress:
                continue
            count -= 1
            yield plan
