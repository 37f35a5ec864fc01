"""What is not modelled yet, whatever else a plan has.

Each looks at its own field alone: lists of choices ask it about a value without a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.numeric import Num
from planner.rule import NOT_YET, Rule


def _is(field: str, *values: Any) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) in values


def _above_one(field: str) -> Callable[[Any], Num]:
    return lambda plan: getattr(plan, field) != 1


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
