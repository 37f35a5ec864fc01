"""A step's batches, each explained by the others."""

from __future__ import annotations

import re
from types import SimpleNamespace

from hypothesis import given, settings

from planner.plan import Plan
from planner.plan.batch import batch_words
from planner.plan.presets import presets
from planner.setup.quantities import quantities
from random_plans import plans


@settings(deadline=None, max_examples=150)
@given(plans())
def test_the_factors_multiply_to_the_sequences_that_a_plan_trains_on(plan: Plan) -> None:
    """Against the quantities that memory is planned for, which are summed elsewhere."""
    words = batch_words(plan).replace(",", "")
    total = int(re.search(r"(\d+) (?:sequence|pair)s? a step", words)[1])
    q = quantities(plan)
    pair = 2 if "pair" in words else 1
    assert total * pair == q.sequences_per_step
    factors = [int(number) for number in re.findall(r"\d+", words.rpartition(" = ")[2])]
    if plan.max_tokens_per_micro_batch:
        assert factors.pop() == plan.max_tokens_per_micro_batch
    product = 1
    for factor in factors:
        product *= factor
    filled = re.search(r"filled up to (\d+)", words)
    assert product == (int(filled[1]) if filled else total)
    assert product == total or product == q.sequences_per_gpu_step // pair * q.training_gpus > total
    if not plan.max_tokens_per_micro_batch:
        assert factors[-1] == plan.micro_batch_size
        if plan.optimizer_step == "update":
            assert factors[-2] == q.micro_batches


def test_what_does_not_divide_is_said() -> None:
    values = presets()["grpo-7b@1"].plan.model_dump()
    for change, said in (
        ({"gpus": 7}, "512 sequences a step, filled up to 532 = 7 GPUs × 19 accumulation steps"),
        ({"micro_batch_size": 5}, "filled up to 520 = 8 GPUs × 13 accumulation steps × 5 per GPU"),
        ({"rollout_gpus": 8}, "which do not divide over 0 GPUs"),
        ({"prompts_per_update": 24}, "which do not divide over 3 updates and 8 GPUs"),
    ):
        assert said in batch_words(SimpleNamespace(**{**values, **change}))


def test_pairs_are_counted_as_pairs() -> None:
    plan = Plan(method="dpo", gpus=4, prompts_per_step=16)
    assert batch_words(plan) == "16 pairs a step = 4 GPUs × 4 accumulation steps × 1 per GPU"
