"""Self-certainty: three forms that agree, and what each holds."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from head_steps import DTYPES, Batch, head_of, silent, total, visible, watch
from planner.formulas.logits import Head, certainty, self_certainty_backward

torch.set_num_threads(1)


class Certainty:
    """Reference forms of self-certainty, exact, with small chunks set by the test."""

    @staticmethod
    def full(head: Head, batch: Batch) -> torch.Tensor:
        logits = F.linear(batch.hidden, batch.weight)
        if head.upcasts:
            logits = logits.float()
        if head.temperature_scaled:
            logits = logits / 0.7
        return torch.logsumexp(logits, -1) - logits.mean(-1)

    @staticmethod
    def tokens(head: Head, batch: Batch) -> torch.Tensor:
        logits = F.linear(batch.hidden, batch.weight).flatten(0, 1)
        return CertaintyOfRows.apply(logits).view(batch.ids.shape)

    @staticmethod
    def vocabulary(head: Head, batch: Batch) -> torch.Tensor:
        hidden = batch.hidden.flatten(0, 1)
        return CertaintyOfSlices.apply(hidden, batch.weight).view(batch.ids.shape)


class CertaintyOfRows(torch.autograd.Function):
    """A chunk of tokens at a time, in fp32; the backward recomputes each chunk."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        log_z = torch.zeros(logits.shape[0])
        scores = torch.zeros(logits.shape[0])
        for start in range(0, logits.shape[0], certainty.TOKEN_CHUNK):
            rows = slice(start, start + certainty.TOKEN_CHUNK)
            chunk = logits[rows].float()
            torch.logsumexp(chunk, -1, out=log_z[rows])
            torch.sum(chunk, -1, out=scores[rows])
            del chunk
        scores.div_(-logits.shape[1]).add_(log_z)
        ctx.save_for_backward(logits, log_z)
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        logits, log_z = ctx.saved_tensors
        result = torch.empty_like(logits)
        for start in range(0, logits.shape[0], certainty.TOKEN_CHUNK):
            rows = slice(start, start + certainty.TOKEN_CHUNK)
            chunk = torch.empty(logits[rows].shape)
            chunk.copy_(logits[rows]).sub_(log_z[rows, None]).exp_()
            chunk.sub_(1 / logits.shape[1]).mul_(gradient[rows, None])
            result[rows].copy_(chunk)
            del chunk
        return result


class CertaintyOfSlices(torch.autograd.Function):
    """A slice of the vocabulary at a time, with a running log-sum-exp."""

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        log_z = torch.full((hidden.shape[0],), -torch.inf)
        scores = torch.zeros(hidden.shape[0])
        for start in range(0, weight.shape[0], certainty.VOCABULARY_CHUNK):
            part = weight[start : start + certainty.VOCABULARY_CHUNK]
            chunk = F.linear(hidden, part).float()
            torch.logaddexp(log_z, torch.logsumexp(chunk, -1), out=log_z)
            scores.add_(chunk.sum(-1))
            del chunk
        scores.div_(-weight.shape[0]).add_(log_z)
        ctx.save_for_backward(hidden, weight, log_z)
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        hidden, weight, log_z = ctx.saved_tensors
        to_hidden = torch.zeros_like(hidden)
        to_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        for start in range(0, weight.shape[0], certainty.VOCABULARY_CHUNK):
            part = weight[start : start + certainty.VOCABULARY_CHUNK]
            chunk = F.linear(hidden, part).float()
            chunk.sub_(log_z[:, None]).exp_().sub_(1 / weight.shape[0]).mul_(gradient[:, None])
            narrow = chunk.to(hidden.dtype)
            del chunk
            to_hidden.addmm_(narrow, part)
            if to_weight is not None:
                torch.mm(narrow.t(), hidden, out=to_weight[start : start + part.shape[0]])
            del narrow
        return to_hidden, to_weight


FORMS = {
    "full": Certainty.full,
    "chunked-tokens": Certainty.tokens,
    "chunked-vocabulary": Certainty.vocabulary,
}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks small enough that a small run has several, the last one odd."""
    monkeypatch.setattr(certainty, "TOKEN_CHUNK", 32)
    monkeypatch.setattr(certainty, "VOCABULARY_CHUNK", 200)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_certainty_forms_agree(dtype: torch.dtype) -> None:
    tolerance = 1e-6 if dtype == torch.float32 else 1e-5
    results = []
    for form in FORMS.values():
        batch = Batch(2, 39, 501, 32, torch.float32)
        batch.hidden = (batch.hidden.detach() / 6).requires_grad_()
        head = head_of(batch)
        scores = form(head, batch)
        (scores * batch.advantages).sum().backward()
        results.append((scores, batch.hidden.grad, batch.weight.grad))
    exact = results[0]
    for other in results[1:]:
        for mine, theirs in zip(other, exact, strict=True):
            torch.testing.assert_close(mine, theirs, atol=20 * tolerance, rtol=1e-4)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("how", FORMS)
@pytest.mark.parametrize("size", [(1, 77, 501, 32), (2, 13, 701, 90), (1, 20, 1100, 64)])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_certainty(how: str, size: tuple[int, int, int, int], dtype: str) -> None:
    for loss_dtype, trains, scaled in product((dtype, "fp32"), (True, False), (False, True)):
        batch = Batch(*size, DTYPES[dtype], trains)
        head = head_of(batch, logits_dtype=loss_dtype, temperature_scaled=scaled)
        form = FORMS[how]
        silent_seen = watch(batch, silent(lambda b: form(head, b)), backward=False)  # noqa: B023
        silent_instants = certainty.forward(head, "policy", how=how, with_gradient=False)
        assert visible(silent_instants) == silent_seen.forward

        def step(batch: Batch) -> torch.Tensor:
            return (form(head, batch) * batch.advantages).mean()  # noqa: B023

        seen = watch(batch, step)
        forward = certainty.forward(head, "policy", how=how, with_gradient=True)
        backward = self_certainty_backward(head, how=how, role="policy")
        assert (visible(forward), total(backward)) == (seen.forward, seen.backward)
