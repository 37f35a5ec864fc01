"""Experts that loop get equal shares; others that ask a tensor without data are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from planner.dryrun.run.branches.routing import EVEN, routed


class LoopingExperts:
    """As transformers' loop asks: which experts get tokens, and then which tokens."""

    num_experts = 3

    def forward(self, mask: Tensor) -> list[int]:
        hits: Any = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        counts = []
        for hit in hits:
            places = torch.where(mask[hit[0]])
            counts.append(len(places[1]))
        return counts


class TopKGating:
    """As JetMoE asks: sizes, and a split by them."""

    def forward(self, sizes: Tensor, tokens: Tensor) -> list[int]:
        return [len(part) for part in tokens.split(sizes.tolist())]


def test_tokens_are_spread_over_experts() -> None:
    said: list[str] = []
    with routed(said.append):
        # A fourth class is nobody's: [classes, top_k, tokens].
        mask = torch.zeros((4, 2, 10), dtype=torch.int64, device="meta")
        assert LoopingExperts().forward(mask) == [6, 7, 7]
        sizes = torch.zeros(3, dtype=torch.int64, device="meta")
        assert TopKGating().forward(sizes, torch.zeros((11, 2), device="meta")) == [3, 4, 4]
    assert set(said) == {EVEN}


def test_others_are_answered_as_ever() -> None:
    with routed(print):
        with pytest.raises(NotImplementedError):
            torch.zeros(4, device="meta").nonzero()
        with pytest.raises(NotImplementedError):
            torch.zeros(4, device="meta").tolist()
        real = torch.tensor([0, 3, 0, 4])
        assert real.nonzero().flatten().tolist() == [1, 3]
        assert torch.where(real > 3)[0].tolist() == [3]
        assert [len(part) for part in real.split([1, 3])] == [1, 3]
