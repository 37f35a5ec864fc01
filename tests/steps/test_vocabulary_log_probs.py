"""Every way of meeting the vocabulary gives the log-softmax's numbers and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from planner.formulas.logits import chunks, tiles
from planner.steps.stage import Stage
from planner.steps.vocabulary import log_probs, token_log_probs
from planner.steps.vocabulary.products import add_product

torch.set_num_threads(1)

ROWS, LENGTH, VOCAB, HIDDEN = 3, 13, 150, 8
WAYS = log_probs.WAYS


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks and tiles with an odd end in each direction."""
    monkeypatch.setattr(chunks, "TOKEN_CHUNK", 9)
    monkeypatch.setattr(tiles, "TOKEN_TILE", 16)
    monkeypatch.setattr(tiles, "VOCABULARY_TILE", 64)
    monkeypatch.setattr(tiles, "FP32_ROWS", 5)


class Inputs:
    """Hidden states, head and targets, the same at every making."""

    def __init__(self, dtype: torch.dtype = torch.float32, *, trains: bool = True) -> None:
        torch.manual_seed(0)
        self.hidden = torch.randn(ROWS, LENGTH, HIDDEN).to(dtype).requires_grad_()
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False, dtype=dtype)
        self.head.weight.data.copy_(torch.randn(VOCAB, HIDDEN))
        self.head.weight.requires_grad_(trains)
        self.targets = torch.randint(0, VOCAB, (ROWS, LENGTH))
        self.weights = torch.randn(2, ROWS, LENGTH)

    def score(self, how: str, **options: Any) -> log_probs.LogProbs:
        given = {"logits_dtype": torch.float32, **options}
        return token_log_probs(Stage(), self.hidden, self.head, self.targets, how=how, **given)

    def backward(self, taken: torch.Tensor, spread: torch.Tensor | None) -> list[Any]:
        """Numbers and gradients of a loss that weighs each number on its own."""
        loss = (taken * self.weights[0]).sum()
        if spread is not None:
            loss = loss + (spread * self.weights[1]).sum()
        loss.backward()
        return [taken, spread, self.hidden.grad, self.head.weight.grad]


def exact(inputs: Inputs, *, entropy: bool, softcap: float, temperature: float) -> list[Any]:
    """The same from torch's own operators in fp64."""
    hidden = inputs.hidden.detach().double().requires_grad_()
    weight = inputs.head.weight.detach().double().requires_grad_()
    logits = hidden @ weight.T
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    spread = torch.distributions.Categorical(logits=logits / temperature)
    taken = spread.log_prob(inputs.targets)
    loss = (taken * inputs.weights[0]).sum()
    if entropy:
        loss = loss + (spread.entropy() * inputs.weights[1]).sum()
    loss.backward()
    return [taken, spread.entropy() if entropy else None, hidden.grad, weight.grad]


def differences(found: list[Any], expected: list[Any]) -> Iterator[float]:
    """Largest difference of each pair, beside the size of what is expected."""
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            size = max(1.0, float(theirs.detach().abs().max()))
            yield float((mine.double() - theirs).detach().abs().max()) / size


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("softcap", [0.0, 3.0])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_values_and_gradients(how: str, entropy: bool, softcap: float, temperature: float) -> None:
    options = {"entropy": entropy, "softcap": softcap, "temperature": temperature}
    inputs = Inputs()
    scored = inputs.score(how, **options)
    found = inputs.backward(scored.log_probs, scored.entropy)
    assert max(differences(found, exact(inputs, **options))) < 1e-5


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("entropy", [False, True])
def test_bf16_weights(how: str, entropy: bool) -> None:
    """Numbers as exact as a bf16 product lets them be, whichever dtype the softmax has."""
    for logits_dtype in (torch.bfloat16, torch.float32):
        inputs = Inputs(torch.bfloat16)
        scored = inputs.score(how, entropy=entropy, logits_dtype=logits_dtype)
        wide = how in ("chunked", "fused") or logits_dtype == torch.float32
        assert scored.log_probs.dtype == (torch.float32 if wide else torch.bfloat16)
        found = inputs.backward(scored.log_probs, scored.entropy)
        assert {each.dtype for each in found[2:]} == {torch.bfloat16}
        expected = exact(inputs, entropy=entropy, softcap=0.0, temperature=1.0)
        assert max(differences(found, expected)) < 0.03


def test_fused_gradients_are_summed_in_fp32() -> None:
    """A bf16 weight gradient summed over 320 equal tiles keeps every one of them."""
    head = nn.Linear(1, 2, bias=False, dtype=torch.bfloat16)
    nn.init.zeros_(head.weight)
    hidden = torch.ones(1, 320 * 16, 1, dtype=torch.bfloat16)
    targets = torch.zeros(1, 320 * 16, dtype=torch.int64)
    found = token_log_probs(Stage(), hidden, head, targets, how="fused", logits_dtype=torch.float32)
    found.log_probs.sum().backward()
    # Every token gives 1/2; bf16 sums of 8 stop growing at 2048.
    assert head.weight.grad is not None
    assert head.weight.grad.flatten().tolist() == [2560.0, -2560.0]


def test_products_are_not_rounded_before_they_are_added() -> None:
    """257 is no bf16 number: its neighbours are 256 and 258."""
    ones = torch.ones(1, 257, dtype=torch.bfloat16)
    total = torch.full((1, 1), 0.5)
    add_product(total, ones, ones.T)
    assert total.item() == 257.5


@pytest.mark.parametrize("how", WAYS)
def test_a_frozen_head_gets_no_gradient(how: str) -> None:
    inputs, same = Inputs(trains=False), Inputs()
    frozen = inputs.backward(inputs.score(how).log_probs, None)
    trained = same.backward(same.score(how).log_probs, None)
    assert frozen[3] is None
    torch.testing.assert_close(frozen[2], trained[2], rtol=0, atol=0)


@pytest.mark.parametrize("how", WAYS)
def test_without_gradient(how: str) -> None:
    inputs = Inputs()
    with torch.no_grad():
        silent = inputs.score(how, entropy=True, softcap=3.0)
    loud = inputs.score(how, entropy=True, softcap=3.0)
    assert not silent.log_probs.requires_grad and loud.log_probs.requires_grad
    assert silent.entropy is not None and loud.entropy is not None
    torch.testing.assert_close(silent.log_probs, loud.log_probs, rtol=0, atol=1e-6)
    torch.testing.assert_close(silent.entropy, loud.entropy, rtol=0, atol=1e-6)


@pytest.mark.parametrize("how", WAYS)
def test_tied_embedding(how: str) -> None:
    """One weight looked up and multiplied: its gradient is the sum of both uses."""
    inputs = Inputs()
    embedding = nn.Embedding(VOCAB, HIDDEN)
    embedding.weight = inputs.head.weight
    ids = inputs.targets.roll(1, 1)
    found = token_log_probs(
        Stage(), embedding(ids), inputs.head, inputs.targets, how=how, logits_dtype=torch.float32
    ).log_probs
    (found * inputs.weights[0]).sum().backward()
    weight = inputs.head.weight.detach().double().requires_grad_()
    logs = F.log_softmax(F.embedding(ids, weight) @ weight.T, -1)
    (logs.gather(-1, inputs.targets[..., None])[..., 0] * inputs.weights[0]).sum().backward()
    torch.testing.assert_close(inputs.head.weight.grad.double(), weight.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", WAYS)
def test_only_the_entropy_is_asked_back(how: str) -> None:
    inputs, like = Inputs(), Inputs()
    spread = inputs.score(how, entropy=True).entropy
    assert spread is not None
    (spread * inputs.weights[1]).sum().backward()
    hidden = like.hidden.detach().double().requires_grad_()
    logits = hidden @ like.head.weight.detach().double().T
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    (entropy * inputs.weights[1]).sum().backward()
    torch.testing.assert_close(inputs.hidden.grad.double(), hidden.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", WAYS)
def test_under_autocast(how: str) -> None:
    """fp32 weights compute in bf16 and get fp32 gradients, on each path alike."""
    inputs = Inputs()
    with torch.autocast("cpu", torch.bfloat16):
        scored = inputs.score(how)
    found = inputs.backward(scored.log_probs, None)
    assert {each.dtype for each in found[2:]} == {torch.float32}
    rounded = Inputs()
    rounded.hidden.data = rounded.hidden.data.bfloat16().float()
    rounded.head.weight.data = rounded.head.weight.data.bfloat16().float()
    expected = exact(rounded, entropy=False, softcap=0.0, temperature=1.0)
    close = list(differences(found, expected))
    assert max(close) < 0.03
    assert close[0] > 1e-5, "the product was not rounded to bf16"


def test_refusals() -> None:
    inputs = Inputs()
    with pytest.raises(ValueError, match="logits must be one of full.*fused"):
        inputs.score("whole")
    for how in ("chunked", "fused"):
        inputs = Inputs()
        inputs.head = nn.Linear(HIDDEN, VOCAB, bias=True)
        with pytest.raises(ValueError, match="bias.*logits to full"):
            inputs.score(how)
        inputs.head.base_layer = nn.Linear(HIDDEN, VOCAB)
        with pytest.raises(ValueError, match="lora_targets.*logits to full"):
            inputs.score(how)
        assert inputs.score("full").log_probs.shape == (ROWS, LENGTH)
