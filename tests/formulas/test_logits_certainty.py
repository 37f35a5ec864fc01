"""Self-certainty: three forms that agree, and what each holds."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from framework_steps import Backboneless, gpu_kernels
from head_steps import (
    DTYPES,
    Batch,
    certain,
    head_of,
    plain_certainty,
    plain_scores,
    scored,
    silent,
    total,
    visible,
    watch,
)
from planner.formulas.logits import (
    certainty,
    certainty_instants,
    logprob_instants,
    tiles,
)

torch.set_num_threads(1)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks small enough that a small run has several, the last one odd."""
    monkeypatch.setattr(certainty, "TOKEN_CHUNK", 32)
    monkeypatch.setattr(certainty, "VOCABULARY_CHUNK", 200)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("softcap", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_certainty_forms_agree(softcap: bool, scaled: bool) -> None:
    """Value, gradient of the hidden states and gradient of the weight."""
    results = []
    for how in certainty.WAYS:
        batch = Batch(2, 39, 501, 32, torch.float32)
        batch.hidden = (batch.hidden.detach() / 6).requires_grad_()
        head = head_of(batch, softcap=softcap, temperature_scaled=scaled)
        scores = plain_certainty(head, how, with_gradient=True)(batch)
        (scores * batch.advantages).sum().backward()
        results.append((scores, batch.hidden.grad, batch.weight.grad))
    for other in results[1:]:
        for mine, theirs in zip(other, results[0], strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_a_certain_and_an_uncertain_row() -> None:
    """Equal logits give log V; one logit of 10 among V - 1 zeros what the definition says."""
    vocab = 7
    batch = Batch(1, 2, vocab, vocab, torch.float32)
    batch.weight.data.copy_(torch.eye(vocab))
    batch.hidden = torch.tensor([[[0.0] * vocab, [10.0] + [0.0] * (vocab - 1)]])
    expected = [math.log(vocab), math.log(math.exp(10) + vocab - 1) - 10 / vocab]
    for how in certainty.WAYS:
        found = plain_certainty(head_of(batch), how, with_gradient=False)(batch)
        assert not found.requires_grad
        assert found.flatten().tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("how", certainty.WAYS)
@pytest.mark.parametrize("size", [(1, 77, 501, 32), (2, 13, 701, 90), (1, 20, 1100, 64)])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_certainty(how: str, size: tuple[int, int, int, int], dtype: str, device: str) -> None:
    for loss_dtype, trains, scaled, softcap in product(
        (dtype, "fp32"), (True, False), (False, True), (False, True)
    ):
        batch = Batch(*size, DTYPES[dtype], trains, device)
        head = head_of(batch, logits_dtype=loss_dtype, temperature_scaled=scaled, softcap=softcap)
        silent_step = plain_certainty(head, how, with_gradient=False)
        silent_seen = watch(batch, silent_step, backward=False)
        silent_instants = certainty_instants(head, how=how, role="", with_gradient=False)
        assert visible(silent_instants) == silent_seen.forward

        def step(batch: Batch) -> torch.Tensor:
            form = plain_certainty(head, how, with_gradient=True)  # noqa: B023
            return (form(batch) * batch.advantages).mean()

        seen = watch(batch, step)
        forward = certainty_instants(head, how=how, role="", with_gradient=True)
        backward = certain(head, how=how, role="", with_gradient=True, backward=True)
        assert (visible(forward), total(backward)) == (seen.forward, seen.backward)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of tokens and of the vocabulary, the last ones odd."""
    monkeypatch.setattr(tiles, "TOKEN_TILE", 30)
    monkeypatch.setattr(tiles, "VOCABULARY_TILE", 200)
    monkeypatch.setattr(tiles, "FP32_ROWS", 20)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("softcap", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_fused_head_gives_the_same_certainty(softcap: bool, scaled: bool) -> None:
    """Beside log-probs and entropy that it does not change, and without gradient."""
    batch = Batch(2, 39, 501, 32, torch.float32)
    batch.hidden = (batch.hidden.detach() / 6).requires_grad_()
    head = head_of(batch, "fused", softcap=softcap, temperature_scaled=scaled)
    exact = plain_certainty(head_of(batch, softcap=softcap, temperature_scaled=scaled), "full",
                            with_gradient=False)(batch)
    alone, found = (scored(head, batch, entropy=True, certainty=also) for also in (False, True))
    assert alone.certainty is None and found.certainty is not None
    torch.testing.assert_close(found.certainty, exact, atol=1e-5, rtol=1e-6)
    assert torch.equal(found.log_probs, alone.log_probs)
    assert found.entropy is not None and alone.entropy is not None
    assert torch.equal(found.entropy, alone.entropy)
    assert found.log_probs.requires_grad and not found.certainty.requires_grad
    found.log_probs.sum().backward()


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_fused_head_holds_a_sum_more(dtype: str, device: str) -> None:
    for entropy in (False, True):
        batch = Batch(2, 300, 257, 32, DTYPES[dtype], device=device)
        head = head_of(batch, "fused")
        seen = watch(batch, silent(plain_scores(head, entropy, certainty=True)), backward=False)
        instants = logprob_instants(
            head, with_entropy=entropy, role="old", with_certainty=True
        )
        assert visible(instants) == seen.forward


def test_other_heads_give_none() -> None:
    batch = Batch(1, 4, 7, 8, torch.float32)
    for how in ("full", "chunked"):
        with pytest.raises(ValueError, match="only fused"):
            scored(head_of(batch, how), batch, entropy=False, certainty=True)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_trls_kernel_holds_the_mean_logit_more(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl.trainer.utils import add_fused_lm_head

    batch = Batch(2, 300, 257, 32, DTYPES[dtype])
    head = head_of(batch, "fused", framework="trl", framework_version="1.16.0")
    with gpu_kernels(monkeypatch):
        seen = {}
        entropy = ("log_probs", "entropy")
        for outputs in (
            ("log_probs",), ("log_probs", "mean_logits"), entropy, (*entropy, "mean_logits")
        ):  # fmt: skip
            model = Backboneless(batch.weight.detach())
            add_fused_lm_head(model, 1.0, False, outputs)

            def score(batch: Batch) -> torch.Tensor:
                given = {"hidden": batch.hidden, "labels": batch.ids, "fused_lm_head": True}
                return model(**given).log_probs  # noqa: B023

            seen[outputs] = watch(batch, silent(score), backward=False).forward
    alone, more = (
        visible(logprob_instants(head, with_entropy=False, role="old", with_certainty=also))
        for also in (False, True)
    )
    tokens = 2 * 299
    assert more - alone == 4 * int(head.tokens)
    assert seen["log_probs", "mean_logits"] - seen[("log_probs",)] == 4 * tokens
    # The quotient that gives the entropy is gone by then, so that both are no higher than one.
    both = [
        visible(logprob_instants(head, with_entropy=True, role="old", with_certainty=also))
        for also in (False, True)
    ]
    assert both[0] == both[1]
    assert seen[*entropy, "mean_logits"] == seen[entropy]
