"""What is not modelled yet, whatever else a plan has.

Each looks at its own field alone: lists of choices ask it about a value without a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.numeric import Num
from planner.rule import NOT_YET, Rule


def _is(field: str, *values: Any) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) in values


def _above_one(field: str) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) != 1


ANOTHER = "every figure would be another"
MOVES: Mapping[str, str] = {
    "tensor_parallel": "weights, gradients and activations of a GPU would be smaller; collectives "
    "would add time",
    "pipeline_parallel": "weights, gradients and optimizer state of a GPU would be smaller; the "
    "first stage would keep activations of several micro-batches, and bubbles would add time",
    "context_parallel": "activations of a GPU would be smaller; exchanged keys and values would "
    "add time",
    "expert_parallel": "experts' weights, gradients and optimizer state of a GPU would be smaller; "
    "sending tokens to them would add time",
    "turns": "a conversation would be longer than one response, so activations, KV cache and time "
    "would grow",
    "gradient_checkpointing": "activations would lie between those of none and of full",
    "sharding": "weights, gradients and optimizer state of a GPU would be of another size",
    **dict.fromkeys(("model", "method", "framework", "preset", "gpu"), ANOTHER),
}
"""Which way a field moves the figures that is left out of an answer, since it is refused."""
NOT_KNOWN = "which way it would move the figures is not known"

RULES: tuple[Rule, ...] = (
    Rule(
        "gradient_checkpointing",
        _is("gradient_checkpointing", "selective"),
        f"gradient_checkpointing selective {NOT_YET}",
        "Choose none or full.",
    ),
    Rule(
        "turns",
        lambda plan: plan.turns != 1,
        f"turns above 1 {NOT_YET}",
        "Set turns to 1 and response_tokens to the whole conversation's.",
    ),
    *(
        Rule(field, _above_one(field), f"{field} above 1 {NOT_YET}", "Set it to 1.")
        for field in ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
    ),
)
