"""Batches that make a plan possible again, after its GPUs were changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.plan import Plan, try_plan
from planner.plan.possible_batches import possible_batches
from planner.plan.presets import presets

GRPO = Plan(
    **presets()["grpo-7b@1"].plan.model_dump()
    | {"framework": "verl", "framework_version": "0.9.1", "reference": "offloaded"}
).model_dump()
"""verl stops where sequences leave a rest."""


def of(**changes: Any) -> dict[str, Any]:
    return {**GRPO, **changes}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # 64 prompts of eight over 64 GPUs leave eight sequences each.
        (of(gpus=64, micro_batch_size=16), {"micro_batch_size": 8}),
        # One response each leaves one sequence: neither kind of micro-batch can hold four.
        (
            {**GRPO, "responses_per_prompt": 1, "method": "reinforce++", "gpus": 64}
            | {"micro_batch_size": 4, "logprob_micro_batch_size": 4},
            {"micro_batch_size": 1, "logprob_micro_batch_size": 1},
        ),
        # Seven GPUs share out no divisor of 512 sequences: 70 prompts are the next that they can.
        (of(gpus=7), {"prompts_per_step": 70, "prompts_per_update": 70}),
        # Mini-batches of 24 do not divide 64 prompts; 16 do.
        (of(prompts_per_update=24), {"prompts_per_update": 16}),
        # Mini-batches of 16 prompts on 24 GPUs: three prompts are 24 sequences.
        (of(gpus=24, prompts_per_update=16), {"prompts_per_step": 72, "prompts_per_update": 18}),
    ],
)
def test_the_nearest_batches_are_offered(values: dict[str, Any], expected: dict[str, int]) -> None:
    assert try_plan(values)[0] is None
    found = possible_batches(values)
    assert expected.items() <= found.items()
    assert try_plan({**values, **found})[0] is not None


@pytest.mark.parametrize("values", [GRPO, of(response_tokens=-1), of(gpus=8, rollout_gpus=9)])
def test_nothing_is_offered_where_batches_are_not_what_is_wrong(values: dict[str, Any]) -> None:
    assert possible_batches(values) == {}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([*range(1, 9), *range(16, 200, 8)]),
    st.integers(1, 96),
    st.integers(1, 96),
    st.integers(1, 64),
)
def test_whatever_is_offered_is_possible_and_changes_batches_alone(
    gpus: int, prompts: int, update: int, micro: int
) -> None:
    values = of(
        gpus=gpus, prompts_per_step=prompts, prompts_per_update=update, micro_batch_size=micro
    )
    found = possible_batches(values)
    if try_plan(values)[0] is None:
        assert found
        assert try_plan({**values, **found})[0] is not None
    else:
        assert not found
