"""What document 000 calls chunked self-certainty is another number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from planner.formulas.logits import certainty
from planner.steps.stage import Stage
from planner.steps.vocabulary import self_certainty

torch.set_num_threads(1)


@pytest.mark.parametrize("slices", [2, 3, 8])
def test_a_mean_of_log_sum_exps_is_too_small(slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of the slices' log-sum-exps misses log(slices) at least: Jensen's inequality."""
    monkeypatch.setattr(certainty, "VOCABULARY_CHUNK", 240 // slices)
    torch.manual_seed(0)
    hidden, head = torch.randn(2, 5, 8), nn.Linear(8, 240, bias=False)
    found = self_certainty(
        Stage(),
        hidden,
        head,
        how="chunked-vocabulary",
        logits_dtype=torch.float32,
        with_gradient=False,
    )
    logits = head(hidden).detach()
    parts = logits.chunk(slices, -1)
    document = torch.stack([each.logsumexp(-1) for each in parts]).mean(0) - logits.mean(-1)
    assert (found - document).min() >= math.log(slices) - 1e-6
    # Equal slices miss exactly that.
    torch.testing.assert_close(
        torch.zeros(240).logsumexp(0) - torch.zeros(240 // slices).logsumexp(0),
        torch.tensor(math.log(slices)),
    )


def test_unknown_form() -> None:
    with pytest.raises(ValueError, match="self_certainty.*chunked-tokens"):
        self_certainty(
            Stage(),
            torch.ones(1, 1, 2),
            nn.Linear(2, 3),
            how="fast",
            logits_dtype=torch.float32,
            with_gradient=False,
        )
