"""What makes a plan possible whose sequences its GPUs cannot share out: the nearest batches.

Whoever takes more GPUs, or seven of them, did not think of micro-batches; the rules say what is
wrong with each, and here is what to set. Only batches change, each by as little as the rules ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, gcd
from typing import Any

from planner.plan.plan import try_plan

COUNTED = ("prompts_per_update", "micro_batch_size", "logprob_micro_batch_size")
"""In the order in which one decides the next."""


def possible_batches(values: Mapping[str, Any]) -> dict[str, int]:
    """The batches to set so that these fields make a plan; none where that is not what is wrong.

    A mini-batch stays as large as it may be, and where none of this step can be shared out, the
    step and its mini-batches grow to the next multiple; micro-batches only shrink.
    """
    changes: dict[str, int] = {}
    for field in COUNTED:
        if field in _wrong({**values, **changes}):
            changes |= _nearest(field, {**values, **changes})
    return changes if changes and try_plan({**values, **changes})[0] is not None else {}


def _nearest(field: str, values: Mapping[str, Any]) -> dict[str, int]:
    for size in _smaller(values[field], values["prompts_per_step"], values["responses_per_prompt"]):
        if field not in _wrong({**values, field: size}):
            return {field: size}
    return _grown(values) if field == COUNTED[0] else {}


def _smaller(size: int, prompts: int, responses: int) -> Iterator[int]:
    """Divisors of a step's sequences below a size, the largest first."""
    sequences = prompts * responses
    return (each for each in range(min(size - 1, sequences), 0, -1) if sequences % each == 0)


def _grown(values: Mapping[str, Any]) -> dict[str, int]:
    training = values["gpus"] - values["rollout_gpus"]
    if training < 1:
        return {}
    least = training // gcd(training, values["responses_per_prompt"])
    update = least * ceil(values["prompts_per_update"] / least)
    step = update * ceil(values["prompts_per_step"] / update)
    return {"prompts_per_step": step, "prompts_per_update": update}


def _wrong(values: Mapping[str, Any]) -> set[str]:
    return {problem.field for problem in try_plan(values)[1]}
