"""What Launch may offer by a button: a plan that the framework runs and the card holds."""

from __future__ import annotations

import pytest

from planner.estimate import estimate
from planner.launch.export import changed_for, following
from planner.launch.offer import offered, refuses
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.presets import presets

BLOCKED = presets()["grpo-7b@1"].plan.changed(
    model="Qwen/Qwen2.5-14B", gpu="a100-40gb", response_tokens=8192
)
QLORA = presets()["grpo-7b@1"].plan.changed(
    model="Qwen/Qwen3-4B",
    gpu="rtx-4090",
    gpus=1,
    sharding="none",
    finetuning="qlora",
    reference="adapter-disabled",
    response_tokens=1024,
)
KEEPS = ("model", "gpu", "gpus", "prompt_tokens", "response_tokens", "responses_per_prompt")


def test_a_plan_that_would_not_fit_is_not_offered() -> None:
    """TRL takes it to 79.9 of 39.4 GiB, and nothing that keeps what was asked for mends that."""
    near, able = offered(BLOCKED, "trl", (), estimate)
    assert near == changed_for(BLOCKED, "trl", ())
    assert estimate(near).device_bytes > estimate(BLOCKED).device_bytes
    assert refuses(estimate(near).verdict, estimate(BLOCKED).verdict) and able is None


@pytest.mark.parametrize(
    ("plan", "framework"), [(BLOCKED, "verl"), (QLORA, "trl"), (QLORA, "verl")]
)
def test_what_is_offered_is_run_by_the_framework_and_fits_with_it(
    plan: Plan, framework: str
) -> None:
    near, able = offered(plan, framework, (), estimate)
    assert able is not None and able != near, "the nearest plan does not fit"
    assert estimate(near).verdict.word != "fits" and estimate(able).verdict.word == "fits"
    assert all(getattr(able, field) == getattr(plan, field) for field in KEEPS)
    changed = {one.field for one in differences(dict(plan), dict(able))}
    assert following(able, framework, changed) == able


def test_what_fits_as_it_is_is_offered_as_it_is() -> None:
    plan = presets()["grpo-7b@1"].plan
    near, able = offered(plan, "trl", (), estimate)
    assert able == near and not refuses(estimate(near).verdict, estimate(plan).verdict)
