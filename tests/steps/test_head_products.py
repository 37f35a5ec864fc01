"""How often a real Intuitor step multiplies by the vocabulary, as its time says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from planner.trial.run.cadence import work_of
from step_results import CONFIG, PROMPT, RESPONSE, SEQUENCES, VOCAB, plan_of, results

torch.set_num_threads(1)

ALL = 2 * SEQUENCES * (PROMPT + RESPONSE) * VOCAB
"""Operations of one product of all positions with the head, per unit of its width."""


class Products(TorchDispatchMode):
    """Operations of every matrix product that has the vocabulary as one of its sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = op._schema.name
        if name in ("aten::mm", "aten::addmm", "aten::addmm_"):
            left, right = args[-2:]
            sizes = (left.shape[0], left.shape[1], right.shape[1])
            if VOCAB in sizes:
                self.flops += 2 * sizes[0] * sizes[1] * sizes[2]
        return op(*args, **(kwargs or {}))


@pytest.mark.parametrize("premise", [False, True])
@pytest.mark.parametrize("how", ["full", "chunked-tokens", "chunked-vocabulary"])
def test_the_step_meets_the_head_as_often_as_its_time_says(how: str, premise: bool) -> None:
    asked = plan_of("intuitor", self_certainty=how, self_certainty_gradient=premise)
    with Products() as products:
        results(asked)
    # Old log-probs, their self-certainty, the reference's, the loss forward and twice back;
    # under the premise self-certainty forward and twice back too, and slices made anew.
    times = 3 + 3 + premise * (3 + (how == "chunked-vocabulary"))
    rows = [row for phase in work_of(asked).values() for row in phase]
    heads = sum(
        (1 if row.run != "backward" else 2 + row.scored_again) * 2 * row.scored_tokens * VOCAB
        for row in rows
        if row.run in ("score", "forward", "backward")
    )
    assert heads == times * ALL
    assert products.flops == times * ALL * CONFIG["hidden_size"]
