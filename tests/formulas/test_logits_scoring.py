"""Passes without gradient, values and embeddings against real runs."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from framework_steps import (
    chunked,
    trl_loop,
    verl_entropy,
)
from head_steps import (
    DTYPES,
    LOSS_DTYPES,
    SIZES,
    Batch,
    head_of,
    logprob_forward,
    loss_backward,
    loss_forward,
    plain_scores,
    silent,
    total,
    visible,
    watch,
)
from live_bytes import profiled_peak_bytes
from planner.formulas.logits import embedding_backward, logprob_instants

torch.set_num_threads(1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
def test_plain_log_probs(size: tuple[int, int, int, int], dtype: str, loss_dtype: str) -> None:
    for entropy, scaled in product((False, True), repeat=2):
        batch = Batch(*size, DTYPES[dtype])
        head = head_of(batch, logits_dtype=loss_dtype, temperature_scaled=scaled)
        seen = watch(batch, silent(plain_scores(head, entropy)), backward=False)
        assert total(logprob_forward(head, with_entropy=entropy, role="old")) == seen.forward


@pytest.mark.parametrize("size", [(1, 62, 501, 32), (8, 14, 701, 33), (2, 150, 257, 64)])
@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
def test_older_trl_log_probs(size: tuple[int, int, int, int], dtype: str, loss_dtype: str) -> None:
    batch = Batch(*size, DTYPES[dtype])
    head = head_of(
        batch, "response", logits_dtype=loss_dtype, framework="trl", framework_version="1.13.0"
    )
    seen = watch(batch, trl_loop(head, gradient=False), backward=False)
    assert visible(logprob_instants(head, with_entropy=False, role="old")) == seen.forward


@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
def test_verl_log_probs(dtype: str, loss_dtype: str) -> None:
    for entropy, scaled in product((True, False), repeat=2):
        batch = Batch(1, 77, 501, 32, DTYPES[dtype])
        head = head_of(
            batch,
            logits_dtype=loss_dtype,
            temperature_scaled=scaled,
            framework="verl",
            framework_version="0.9.1",
        )
        temperature = torch.full((77, 1), 0.9)

        def scores(batch: Batch) -> Any:
            raw = F.linear(batch.hidden, batch.weight)  # noqa: B023
            logits = raw.squeeze(0)
            if head.temperature_scaled:  # noqa: B023
                logits = logits / temperature.to(logits.dtype)  # noqa: B023
            if entropy:  # noqa: B023
                return verl_entropy(logits, head.upcasts)  # noqa: B023
            return [torch.empty(77) for _ in range(4)]

        seen = watch(batch, silent(scores), backward=False)
        instants = logprob_instants(head, with_entropy=entropy, role="old")
        assert visible(instants) == seen.forward


@pytest.mark.parametrize("how", ["chunked", "fused"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_fused_and_chunked_log_probs(how: str, device: str) -> None:
    for entropy in (False, True):
        batch = Batch(2, 300, 257, 32, torch.bfloat16, device=device)
        head = head_of(batch, how, entropy=entropy)
        seen = watch(batch, silent(plain_scores(head, entropy)), backward=False)
        assert total(logprob_forward(head, with_entropy=entropy, role="old")) == seen.forward


def test_verl_chunked_log_probs() -> None:
    batch = Batch(2, 300, 257, 32, torch.bfloat16)
    head = head_of(batch, "chunked", framework="verl", framework_version="0.9.1")
    seen = watch(batch, silent(chunked(head)), backward=False)
    assert total(logprob_forward(head, with_entropy=True, role="old")) == seen.forward


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_values(dtype: str) -> None:
    """A critic's clipped value loss as verl writes it."""

    def step(batch: Batch) -> torch.Tensor:
        values = F.linear(batch.hidden, batch.weight).squeeze(-1)
        clipped = torch.max(torch.min(values, batch.old + 0.2), batch.old - 0.2)
        losses = (values - batch.reference) ** 2, (clipped - batch.reference) ** 2
        return 0.5 * torch.max(*losses).mean()

    for trains in (True, False):
        batch = Batch(3, 21, 1, 96, DTYPES[dtype], trains)
        head = head_of(batch)
        head = head_of(batch, vocab=151_936)
        seen = watch(batch, step)
        forward = loss_forward(head, objective="value", role="critic")
        backward = loss_backward(head, objective="value", role="critic")
        assert (total(forward), total(backward)) == (seen.forward, seen.backward)


def test_embedding_gradient() -> None:
    """What the embedding's backward adds, by the allocator: more than twice when tied."""
    vocab, hidden, tokens = 501, 64, 12
    size = {"vocab": vocab, "hidden": hidden, "item_bytes": 4, "role": "policy"}
    weight, head = torch.randn(2, vocab, hidden).unbind()
    ids = torch.randint(0, vocab, (tokens,))
    weight.requires_grad_()

    def tied() -> None:
        F.linear(F.embedding(ids, weight), weight).sum().backward()

    def apart() -> None:
        F.linear(F.embedding(ids, weight), head).sum().backward()

    slack = 3 * 4 * tokens * max(vocab, hidden)
    kept = 4 * vocab * hidden
    # The first backward makes .grad, which is not in the term; the second adds to it.
    for batches in (1, 2):
        first = kept * (batches == 1)
        own = embedding_backward(**size, beside=2, passes_on=batches - 1)
        assert own.category == "gradients"
        assert 0 <= profiled_peak_bytes(tied) - own.bytes - first <= 16
    weight.grad = None
    for batches in (1, 2):
        first = kept * (batches == 1)
        own = embedding_backward(**size, passes_on=batches - 1)
        assert 0 <= profiled_peak_bytes(apart) - own.bytes - first <= slack
