"""How the sequences of an update are dealt out to GPUs, and what a trainer says of a rest.

A trainer that fills up what is missing with rows that it has already needs no rule; one that stops
brings those of :func:`whole`, in its own words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.numeric import Num
from planner.rule import Rule


def data_parallel(plan: Any) -> Num:
    """GPUs that each train on sequences of their own; none where an engine has all."""
    return plan.gpus - plan.rollout_gpus


def rest(plan: Any, rows: Num) -> Num:
    """Sequences of an update that do not fill ``rows`` on every GPU that trains."""
    gpus = np.maximum(data_parallel(plan), 1)
    return plan.prompts_per_update * plan.responses_per_prompt % (gpus * rows)


def whole(over_gpus: str, by_micro_batch: str) -> tuple[Rule, Rule]:
    """The rules of a trainer that stops where GPUs or micro-batches leave a rest, in its words."""
    return (
        Rule(
            "prompts_per_update",
            lambda p: rest(p, 1) != 0,
            f"{over_gpus}: sequences of one update (prompts_per_update × responses_per_prompt) "
            "must be a multiple of the GPUs that train.",
            "Change prompts_per_update, responses_per_prompt or gpus.",
        ),
        Rule(
            "micro_batch_size",
            lambda p: (p.max_tokens_per_micro_batch == 0) & (rest(p, p.micro_batch_size) != 0),
            f"{by_micro_batch}: micro_batch_size must divide the sequences of one update on each "
            "GPU (prompts_per_update × responses_per_prompt ÷ training GPUs).",
            "Choose a divisor.",
        ),
    )
