"""Supervised loss: the same number on every path, labels of -100 left out, batches add up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from head_steps import DTYPES, Batch, head_of, loss_backward, loss_forward, plain_sft, total, watch
from planner.formulas.logits import chunks, tiles
from planner.steps.stage import Stage
from planner.steps.vocabulary import sft_loss

torch.set_num_threads(1)

WAYS = ("full", "response", "chunked", "fused")


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "TOKEN_CHUNK", 9)
    monkeypatch.setattr(tiles, "TOKEN_TILE", 16)
    monkeypatch.setattr(tiles, "VOCABULARY_TILE", 64)
    monkeypatch.setattr(tiles, "FP32_ROWS", 5)


def made() -> tuple[torch.Tensor, nn.Linear, torch.Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(4, 13, 8, requires_grad=True)
    head = nn.Linear(8, 150, bias=False)
    labels = torch.randint(0, 150, (4, 13))
    labels[0, :5] = -100
    labels[1] = -100
    return hidden, head, labels


def loss_of(how: str, *given: Any, **options: Any) -> torch.Tensor:
    return sft_loss(Stage(), *given, how=how, logits_dtype=torch.float32, **options)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("softcap", [0.0, 3.0])
def test_loss_and_gradients(how: str, softcap: float) -> None:
    hidden, head, labels = made()
    loss = loss_of(how, hidden, head, labels, softcap=softcap)
    loss.backward()
    exact, weight = (each.detach().double().requires_grad_() for each in (hidden, head.weight))
    logits = exact @ weight.T
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    # Position t predicts label t + 1, and a row's last position nothing.
    expected = F.cross_entropy(logits[:, :-1].reshape(-1, 150), labels[:, 1:].reshape(-1))
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, theirs in ((hidden.grad, exact.grad), (head.weight.grad, weight.grad)):
        assert mine is not None
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("how", ["chunked", "fused"])
@pytest.mark.parametrize("size", [(1, 77, 501, 32), (8, 64, 1257, 33), (1, 600, 1257, 700)])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_live_bytes(how: str, size: tuple[int, int, int, int], dtype: str) -> None:
    for trains in (True, False):
        for device in ("meta", "cpu"):
            batch = Batch(*size, DTYPES[dtype], trains, device)
            head = head_of(batch, how)
            seen = watch(batch, plain_sft(head))
            forward = loss_forward(head, objective="cross-entropy", role="policy")
            backward = loss_backward(head, objective="cross-entropy", role="policy")
            assert (total(forward), total(backward)) == (seen.forward, seen.backward)
