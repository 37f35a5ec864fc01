"""The rows that verl's engines are given: the longest there can be, as many as fill micro-batches.

verl's own ``prepare_micro_batches`` cuts them. Under a token budget it takes as few micro-batches
as hold all tokens and balances them (``rearrange_micro_batches``), so rows that are all at their
cap leave part of each budget empty, and other rows of the same run fill it to the last token. A
plan's memory is that of the worst, so each micro-batch is filled: rows at the cap, and one that
takes what is left.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from verl.utils import tensordict_utils as tu

from planner.numeric import ceil_div
from planner.plan import Plan
from planner.setup.quantities import quantities

ENOUGH = 2
"""Micro-batches of a pass that are run: the second finds what the first has left."""
Row = tuple[int, int]
"""Tokens of a prompt and of its response."""


def batch(plan: Plan, *, training: bool) -> Any:
    """What a worker is given for a pass, as nested rows of up to ``ENOUGH`` micro-batches."""
    rows = micro_batch(plan, training=training) * _micro_batches(plan, training)
    tokens, prompts, responses = [sum(row) for row in rows], *zip(*rows, strict=True)
    ids = partial(torch.zeros, dtype=torch.int64)
    ones = partial(torch.ones, dtype=torch.int64)
    fields = {
        "input_ids": map(ids, tokens),
        "position_ids": map(torch.arange, tokens),
        "loss_mask": map(ones, tokens),
        "prompts": map(ids, prompts),
        "responses": map(ids, responses),
        "response_mask": map(ones, responses),
    }
    names = ("old_log_probs", "advantages", "values", "returns")
    numbers = (*names, *(("ref_log_prob",) if plan.kl == "loss" else ())) if training else ()
    fields |= {name: map(torch.zeros, responses) for name in numbers}
    return tu.get_tensordict(
        {
            name: torch.nested.as_nested_tensor(list(of_rows), layout=torch.jagged)
            for name, of_rows in fields.items()
        },
        {  # trainer_base.py
            "temperature": plan.temperature,
            "global_batch_size": plan.prompts_per_update * plan.responses_per_prompt,
        },
    )


def micro_batch(plan: Plan, *, training: bool) -> list[Row]:
    """Rows of one forward: at the plan's caps, and of padded ones the last has one token less.

    Of packed rows under a budget the last takes what is left of it, unless that is a single token,
    which is no prompt and response. Where that leaves one row, though the run has others, two
    shorter ones fill the budget: a mask keeps them apart.
    """
    q = quantities(plan)
    longest = (plan.prompt_tokens, int(q.response_tokens))
    size = int(q.micro_sequences if training else q.logprob_sequences)
    if plan.max_tokens_per_micro_batch and plan.batch_shape == "packed":
        size, left = divmod(int(q.micro_tokens if training else q.logprob_tokens), sum(longest))
        shares = not (q.micro_alone if training else q.logprob_alone)
        if size == 1 and left < 2 < longest[1] and shares:
            return [(longest[0], longest[1] - 2 + left), (1, 1)]
        response = min(longest[1], left - 1)
        return [longest] * size + [(left - response, response)] * (left > 1)
    if plan.batch_shape == "padded" and size > 1:
        return [longest] * (size - 1) + [(longest[0], longest[1] - 1)]
    return [longest] * size


def _micro_batches(plan: Plan, training: bool) -> int:
    q = quantities(plan)
    size, rows = (
        (q.micro_sequences, q.sequences_per_gpu_update)
        if training
        else (q.logprob_sequences, q.sequences_per_gpu_step)
    )
    return min(ENOUGH, int(ceil_div(rows, size)))
