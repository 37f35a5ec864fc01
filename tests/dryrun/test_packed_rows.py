"""Packed rows of one sequence and of several: what transformers makes of real ones, without data.

``find_packed_sequence_indices`` keeps a mask of one sequence for tensors that are traced, and makes
none for real ones (transformers 5.23, masking_utils.py, line 776).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import masking_utils

from branch_steps import step
from dry_peaks import meets_dry_run
from planner.dryrun.run.branches import CardTraits, gpu_branches
from planner.dryrun.run.branches.cpu import cpu_branches
from planner.dryrun.run.world import world
from planner.estimate import estimate
from planner.plan import Plan
from planner.setup.quantities import quantities
from planner.steps.batch import scoring_rows, training_rows
from planner.steps.stage import Stage

torch.set_num_threads(1)

AMPERE = CardTraits(compute_capability="8.0", cudnn_version=92000)
ROWS = [(32,), (32, 8), (3, 5, 1), (1, 1)]
ONE: dict[str, Any] = {
    **{"model": "Qwen/Qwen2.5-0.5B", "method": "grpo", "gpu": "h100-80gb", "gpus": 1},
    **{"attention": "sdpa", "batch_shape": "packed", "prompt_tokens": 256, "response_tokens": 768},
    **{"prompts_per_step": 4, "responses_per_prompt": 2},
}


def positions(lengths: Sequence[int]) -> torch.Tensor:
    return torch.cat([torch.arange(length) for length in lengths])[None]


@pytest.mark.parametrize("lengths", ROWS, ids=str)
def test_values_are_read_where_there_are_some(lengths: tuple[int, ...]) -> None:
    row = positions(lengths)
    real = masking_utils.find_packed_sequence_indices(row)
    with cpu_branches("packed", "sdpa") as branches, FakeTensorMode(allow_non_fake_inputs=True):
        found = masking_utils.find_packed_sequence_indices(row)
        assert branches.sequences(row) == len(lengths)
    assert (found is None) == (real is None) == (len(lengths) == 1)


@pytest.mark.parametrize("lengths", ROWS, ids=str)
def test_a_row_without_values_is_what_was_said_of_it(lengths: tuple[int, ...]) -> None:
    with cpu_branches("packed", "sdpa") as branches:
        row = positions(lengths).to("meta")
        assert masking_utils.find_packed_sequence_indices(row) is not None  # nobody has said
        branches.numbered[row] = len(lengths)
        found = masking_utils.find_packed_sequence_indices(row)
    assert (found is None) == (len(lengths) == 1)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("attention", ["sdpa", "flash"])
def test_one_sequence_runs_as_a_full_row(family: str, attention: Any) -> None:
    """But for the question itself, whose operators a real step runs too."""
    with gpu_branches(card=AMPERE, batch_shape="packed", attention=attention) as branches:
        told: dict[str, Any] = {"tokens": 32, "lengths": (32,)}
        meta = step(family, attention, "packed", "meta", numbered=branches.numbered, **told)
        calls = dict(branches.calls)
    assert not [size for size, _ in meta.saved if size % (32 * 32 * 32) == 0]
    assert "int32" not in {dtype for _, dtype in meta.saved}
    if attention == "sdpa":
        real = step(family, "sdpa", "packed", "cpu", **told)
        cpu, card = (f"aten::_scaled_dot_product_flash_attention{end}" for end in ("_for_cpu", ""))
        assert meta.operators == [name.replace(cpu, card) for name in real.operators]
        assert calls == {"flash": 2}


@pytest.mark.parametrize("size", [1, 2])
def test_both_tiers_have_a_mask_of_several_sequences_alone(size: int) -> None:
    plan = Plan(**ONE, framework="plain", micro_batch_size=size)
    meets_dry_run(plan, within=0.002)
    (found,) = [one for one in estimate(plan).phases if one.name == "policy forward"]
    assert any(term.name.startswith("attention mask") for term in found.terms) == (size > 1)


BUDGETS: list[tuple[dict[str, Any], tuple[int, int]]] = [
    ({}, (1, 1)),
    ({"micro_batch_size": 2, "logprob_micro_batch_size": 1}, (2, 1)),
    ({"max_tokens_per_micro_batch": 1024}, (2, 2)),
    ({"max_tokens_per_micro_batch": 1025}, (2, 2)),
    ({"max_tokens_per_micro_batch": 2500}, (3, 3)),
    ({"max_tokens_per_micro_batch": 1024, "prompts_per_step": 1, "gpus": 2}, (1, 1)),
    ({"method": "sft", "responses_per_prompt": 1, "rollout": "none"}, (2, 2)),
]
"""What a plan says, and sequences in a row of its update and of its log-probs. A budget and a
data set's packed rows are filled by texts of other lengths."""


@pytest.mark.parametrize(("changes", "count"), BUDGETS, ids=str)
def test_the_steps_own_rows_are_what_the_plan_says_of_them(
    changes: dict[str, Any], count: tuple[int, int]
) -> None:
    plan = Plan(**{**ONE, "framework": "plain", "sharding": "fsdp2", **changes})
    q, stage = quantities(plan), Stage("cpu", "cpu", lambda *_: None)
    for rows, said, alone in (
        (training_rows(stage, plan, q, 8), count[0], q.micro_alone),
        (scoring_rows(stage, plan, q, 8), count[1], q.logprob_alone),
    ):
        assert rows.positions is not None
        assert int((rows.positions == 0).sum()) == said
        assert alone == (said == 1)


@pytest.mark.parametrize("framework", ["verl", "plain", "trl"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_padded_row_by_itself_is_whole_where_nobody_else_pads_it(
    framework: str, size: int
) -> None:
    told = {**ONE, "framework": framework, "batch_shape": "padded", "micro_batch_size": size}
    plan = Plan(**{**told, "gpus": 2})
    q, stage = quantities(plan), Stage("cpu", "cpu", lambda *_: None)
    whole = framework == "verl" and size == 1
    mask = training_rows(stage, plan, q, 8).mask
    assert mask is not None and bool(mask.all()) == bool(q.micro_alone) == whole
    assert bool(masking_utils.fast_all(mask > 0)) == whole
    with world(plan, autocast=False):
        assert masking_utils.fast_all(mask.to("meta") > 0) == whole
