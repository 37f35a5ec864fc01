"""Batches that leave a rest: filled up, or refused in the words of the trainer that stops."""

from __future__ import annotations

from typing import Any

import pytest

from planner import estimate
from planner.launch.export import export, obstacles
from planner.plan import Plan, try_plan
from planner.plan.link import from_query_string
from planner.plan.trainers import able
from planner.setup.quantities import quantities

FILLS = (
    {"method": "grpo"},
    {"method": "sft"},
    {"method": "dpo"},
    {"method": "sft", "framework": "trl"},
    {"method": "dpo", "framework": "trl"},
)
STOPS = {
    "verl": "verl asserts",
    "trl": "TRL stops: the generation batch must be divisible by the global batch size",
}


@pytest.mark.parametrize("given", FILLS, ids=str)
@pytest.mark.parametrize("sizes", [(3, 1), (20, 1), (24, 4), (64, 3)])
def test_a_batch_is_filled_up_to_whole_micro_batches(
    given: dict[str, Any], sizes: tuple[int, int]
) -> None:
    """Bytes and seconds are those of the batch that fills them: each GPU has a row at least."""
    prompts, rows = sizes
    each = 2 if given["method"] == "grpo" else 1
    common = {**given, "responses_per_prompt": each, "micro_batch_size": rows, "gpus": 8}
    plan = Plan(**common, prompts_per_step=prompts)
    filled = -(-prompts * each // (8 * rows)) * 8 * rows
    whole = Plan(**common, prompts_per_step=filled // each)
    q, of = quantities(plan), quantities(whole)
    assert q.sequences_per_gpu_step == of.sequences_per_gpu_step >= rows
    assert q.micro_batches == of.micro_batches and q.training.tokens == of.training.tokens
    phases = zip(estimate(plan).phases, estimate(whole).phases, strict=True)
    for found, expected in phases:
        if found.name != "rollout":  # an engine is given the responses that there are
            assert found.requested_bytes == expected.requested_bytes, found.name
            assert found.seconds == expected.seconds, found.name


@pytest.mark.parametrize("framework", STOPS)
@pytest.mark.parametrize("given", [{"gpus": 72}, {"micro_batch_size": 3}], ids=str)
def test_a_trainer_that_stops_says_so_in_its_words(framework: str, given: dict[str, int]) -> None:
    plan, problems = try_plan({"framework": framework, "prompts_per_step": 64, **given})
    assert plan is None
    own = [problem for problem in problems if problem.field != "logprob_micro_batch_size"]
    assert own and all(problem.message.startswith(STOPS[framework]) for problem in own)
    assert {problem.field for problem in problems} >= {"micro_batch_size"}


@pytest.mark.parametrize("framework", able("grpo"))
@pytest.mark.parametrize("gpus", [8, 24, 40, 72, 3])
def test_the_batch_of_the_product_divides(framework: str, gpus: int) -> None:
    """64 prompts of eight responses are no whole share of 72 GPUs; what is usual there is."""
    plan = Plan(framework=framework, gpus=gpus, gpus_per_node=min(gpus, 8))
    sequences = plan.prompts_per_step * plan.responses_per_prompt
    assert sequences % gpus == 0 and plan.prompts_per_update == plan.prompts_per_step
    assert (plan.prompts_per_step == 64) == (512 % gpus == 0)
    assert quantities(plan).sequences_per_gpu_step * gpus == sequences


def test_a_preset_on_more_gpus_is_answered() -> None:
    reading = from_query_string("preset=grpo-7b@1&gpus=72")
    assert reading.problems == () and reading.plan is not None
    assert reading.plan.prompts_per_step == 64  # a preset means the same for ever
    assert quantities(reading.plan).sequences_per_gpu_step == 8


def test_a_budget_below_a_row_gives_it_a_micro_batch_of_its_own() -> None:
    below = Plan(max_tokens_per_micro_batch=100)
    q = quantities(below)
    assert (q.micro_rows, q.micro_row_tokens) == (1, below.prompt_tokens + below.response_tokens)
    assert estimate(below).device_bytes == estimate(Plan(micro_batch_size=1)).device_bytes
    _, problems = try_plan({"framework": "verl", "max_tokens_per_micro_batch": 2559})
    assert [problem.field for problem in problems] == ["max_tokens_per_micro_batch"]
    assert problems[0].message.startswith("verl asserts that the token budget")
    assert Plan(framework="verl", max_tokens_per_micro_batch=2560).prompt_tokens == 512


def test_a_script_has_the_batch_that_is_filled_up() -> None:
    """TRL's update is per-device batch × GPUs × accumulation, and never a part of that."""
    plan = Plan(method="sft", framework="trl", gpus=8, prompts_per_step=20, micro_batch_size=2)
    text = "\n".join(file.text for file in export(plan, "trl").files)
    assert "gradient_accumulation_steps: 2" in text or "gradient_accumulation_steps 2" in text
    assert quantities(plan).sequences_per_gpu_update == 4
    whole = Plan(method="dpo", gpus=8, sharding="ddp", prompts_per_step=20)
    assert "prompts_per_update" in {one.field for one in obstacles(whole, "plain")}
