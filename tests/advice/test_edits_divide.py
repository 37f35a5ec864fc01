"""A smaller micro-batch that an edit asks for is one that the plan's rules take."""

from __future__ import annotations

from planner.advice.edits import edits
from planner.plan import Plan, try_plan


def test_a_micro_batch_is_lowered_to_a_divisor() -> None:
    """Where a rest is not filled up: the plain step halves, and fills up what is left."""
    plan = Plan(
        framework="verl",
        method="grpo",
        gpus=2,
        prompts_per_step=18,
        responses_per_prompt=2,
        micro_batch_size=9,
    )
    asked = {
        field: (edit.title, edit.changes[field])
        for edit in edits(plan)
        for field in ("micro_batch_size", "logprob_micro_batch_size")
        if edit.changes.keys() == {field} and edit.changes[field] > 1
    }
    assert asked["micro_batch_size"] == ("Lower the micro-batch to 3", 3)
    assert asked["logprob_micro_batch_size"] == ("Lower the log-prob micro-batch to 3", 3)
    for field, (_, size) in asked.items():
        assert try_plan({**plan.model_dump(), field: size})[0] is not None
