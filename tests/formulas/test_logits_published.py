"""The allocator's own events, and figures published elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from framework_steps import chunked, trl_loop, verl_entropy, verl_packed
from head_steps import (
    DTYPES,
    HIDDEN_IN_KERNEL,
    Batch,
    big,
    certain,
    head_of,
    logprob_forward,
    loss_backward,
    loss_forward,
    plain_policy,
    plain_sft,
    total,
    whole_step,
)
from live_bytes import LiveBytes, profiled_peak_bytes
from planner.formulas.logits.kept import DOCUMENT_PREMISE

torch.set_num_threads(1)


PROFILED: list[tuple[str, str, dict[str, Any]]] = [
    ("plain", "fp32", {}),
    ("plain", "fp32", {"entropy": True}),
    ("plain", "bf16", {"logits_dtype": "fp32"}),
    ("plain", "bf16", {"logits_dtype": "fp32", "entropy": True}),
    ("chunks", "bf16", {"logits": "chunked"}),
    ("chunks", "fp32", {"logits": "chunked", "entropy": True}),
    ("loop", "fp32", {"logits": "response", "framework": "trl", "framework_version": "1.13.0"}),
    ("verl", "bf16", {"framework": "verl", "framework_version": "0.9.1", "entropy": True}),
    ("sft", "bf16", {}),
]
STEPS = {
    "plain": plain_policy,
    "chunks": chunked,
    "loop": trl_loop,
    "verl": verl_packed,
    "sft": plain_sft,
}
WRAPPED_SCALARS_BYTES = 16
"""Python numbers that operators wrap into tensors, on the CPU wherever the others are."""


@pytest.mark.parametrize(("step", "dtype", "changes"), PROFILED)
def test_allocator_agrees(step: str, dtype: str, changes: dict[str, Any]) -> None:
    """The allocator's own events: no dispatch mode, and what operators hide is in them.

    bf16 log-softmax is missing here: the CPU's scatter_add_ hides two fp32 copies in bf16.
    """
    batch = Batch(1, 300, 701, 64, DTYPES[dtype])
    head = head_of(batch, **changes)
    peak = profiled_peak_bytes(whole_step(STEPS[step](head), batch))
    objective = "cross-entropy" if step == "sft" else "policy"
    expected = max(
        total(make(head, objective=objective, role="policy"))
        for make in (loss_forward, loss_backward)
    )
    assert 0 <= peak - expected <= WRAPPED_SCALARS_BYTES


def test_a_naive_counter_sees_too_much() -> None:
    """Where the 24 of fp32 log-prob and entropy comes from: 20 for the allocator."""

    def entropy_first(batch: Batch) -> Any:
        raw = F.linear(batch.hidden, batch.weight)
        logs = F.log_softmax(raw.float(), -1)
        entropy = -(logs.exp() * logs).sum(-1)
        taken = logs.gather(-1, batch.ids.unsqueeze(-1)).squeeze(-1)
        return (taken * batch.advantages).mean() - 0.01 * entropy.mean()

    figures = []
    for naive in (True, False):
        batch = Batch(1, 300, 701, 64, torch.bfloat16)
        with LiveBytes(batch.tensors(), naive=naive) as live:
            loss = entropy_first(batch)
            forward = live.peak
            live.reset_peak()
            loss.backward()
        figures.append((round(forward / 300 / 701, 1), round(live.peak / 300 / 701, 1)))
    assert figures == [(14.0, 24.0), (14.0, 20.0)]
    batch = Batch(1, 300, 701, 64, torch.bfloat16)
    peak = profiled_peak_bytes(whole_step(entropy_first, batch))
    assert round(peak / 300 / 701, 1) == 20.0


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_logsumexp_hides_its_exponentials(dtype: str) -> None:
    """One more tensor than operators show; bf16's mean adds an fp32 copy on a CPU only."""
    batch = Batch(1, 301, 701, 64, DTYPES[dtype])
    head = head_of(batch)
    logits = F.linear(batch.hidden, batch.weight).detach().flatten(0, 1)
    hidden = profiled_peak_bytes(lambda: torch.logsumexp(logits, -1))
    size = logits.nbytes
    assert size <= hidden <= size + 2 * 301 * logits.itemsize
    terms = certain(head, how="full", with_gradient=False, role="policy")
    assert total(terms) == 2 * size
    assert HIDDEN_IN_KERNEL in {term.name for term in terms}


def audited(logits: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """The three things verl and the Intuitor fork compute on bf16 logits."""

    def certain() -> torch.Tensor:
        return torch.logsumexp(logits, -1) - logits.mean(-1)

    def spread() -> torch.Tensor:
        return verl_entropy(logits, autocast=False)

    return {"entropy": spread, "certainty": certain, "both": lambda: (spread(), certain())}


def test_audited_extra_peaks() -> None:
    """Entropy, self-certainty, and one after the other: 2.0 times the logits each, on a CPU."""
    logits = torch.randn(301, 1501, dtype=torch.bfloat16)
    for run in audited(logits).values():
        assert profiled_peak_bytes(run) / logits.nbytes == pytest.approx(2.0, abs=0.01)
    head = head_of(
        Batch(1, 301, 1501, 8, torch.bfloat16), framework="verl", framework_version="0.9.1"
    )
    entropy = total(logprob_forward(head, with_entropy=True, role="old")) - logits.nbytes
    assert entropy / logits.nbytes == pytest.approx(2.0, abs=0.01)
    # Self-certainty after it in the same pass: no higher, so Intuitor adds nothing to the peak.
    later = certain(head, how="full", with_gradient=False, role="old")
    assert total(later) <= entropy + logits.nbytes


def per_entry(terms: Any) -> float:
    """Bytes per token and vocabulary entry, what one operator hides left out."""
    shown = sum(term.bytes for term in terms if term.name != HIDDEN_IN_KERNEL)
    return float(round(shown / (8192 * 50_000), 1))


PUBLISHED = [
    ("HF loss, logits alive", "cross-entropy", {"logits_held": True}, 10, 14),
    ("HF loss, logits dropped", "cross-entropy", {}, 8, 12),
    ("bf16 log-softmax and gather, one row", "policy", {}, 4, 6),
    ("naive fp32 log-softmax and gather", "policy", {"logits_dtype": "fp32"}, 8, 12),
]


@pytest.mark.parametrize(("name", "objective", "changes", "forward", "backward"), PUBLISHED)
def test_published_table(
    name: str, objective: str, changes: dict[str, Any], forward: int, backward: int
) -> None:
    head = big(**changes)
    assert per_entry(loss_forward(head, objective=objective, role="policy")) == forward, name
    assert per_entry(loss_backward(head, objective=objective, role="policy")) == backward, name


def test_published_entropy_and_certainty() -> None:
    """The entropy row kept the raw logits named in the forward; its 24 was the counter's."""
    switches = {"logits_dtype": "fp32", "entropy": True}
    forward = loss_forward(big(**switches, logits_held=True), objective="policy", role="policy")
    backward = loss_backward(big(**switches), objective="policy", role="policy")
    assert (per_entry(forward), per_entry(backward)) == (14, 20)
    how: dict[str, Any] = {"how": "full", "role": "policy"}
    forward = certain(big(), with_gradient=True, **how)
    back = certain(big(), with_gradient=True, backward=True, **how)
    assert (per_entry(forward), per_entry(back)) == (2, 10)


@pytest.mark.parametrize(
    ("loss_dtype", "rows", "backward"),
    [("bf16", 1, 6), ("bf16", 8, 4), ("fp32", 1, 16), ("fp32", 8, 12)],
)
def test_published_trl_rows(loss_dtype: str, rows: int, backward: int) -> None:
    """Published as 6, 4, 16, 16: the last counted zeros that are scattered into in place."""
    head = big(
        rows,
        logits="response",
        logits_dtype=loss_dtype,
        framework="trl",
        framework_version="1.9.0",
    )
    assert per_entry(loss_backward(head, objective="policy", role="policy")) == backward


def test_published_fused_head() -> None:
    """256 MiB of tile, 4 bytes per hidden number and head weight, then the head's bf16 cast."""
    tokens, vocab, hidden = 6000, 151_936, 2048
    head = big(tokens=tokens, vocab=vocab, hidden=hidden, logits="fused")
    terms = loss_backward(head, objective="policy", role="policy")
    published = 256 * 2**20 + 6 * hidden * (tokens + vocab)
    assert abs(total(terms) - published) <= 8 * tokens + 8
    gradients = [term.bytes for term in terms if term.category == "gradients"]
    assert gradients == [4 * vocab * hidden, 2 * vocab * hidden]


def test_document_premise() -> None:
    """468 GB: twice the document's 234 GB, which is 233.5 rounded up."""
    figure = DOCUMENT_PREMISE.value(sequences=64, tokens=6000, vocab=152_000)
    assert figure == 2 * 233_472_000_000
    assert abs(figure - 468e9) / 468e9 < 0.003
