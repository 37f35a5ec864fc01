"""The same bytes without data, in fewer rounds, and in the category they are counted in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
import torch

import head_steps
from head_steps import (
    DTYPES,
    LOSS_DTYPES,
    Batch,
    head_of,
    logprob_forward,
    loss_backward,
    loss_forward,
    plain_certainty,
    plain_policy,
    plain_scores,
    plain_sft,
    silent,
    total,
    watch,
)
from live_bytes import LiveBytes, in_function
from planner.formulas.logits import certainty, chunks, tiles
from planner.steps.stage import Stage

torch.set_num_threads(1)

SIZE = (3, 61, 1501, 32)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three chunks, tiles and slices at least, so that leaving rounds out is seen."""
    monkeypatch.setattr(chunks, "TOKEN_CHUNK", 50)
    monkeypatch.setattr(certainty, "TOKEN_CHUNK", 50)
    monkeypatch.setattr(certainty, "VOCABULARY_CHUNK", 400)
    monkeypatch.setattr(tiles, "TOKEN_TILE", 70)
    monkeypatch.setattr(tiles, "VOCABULARY_TILE", 600)
    monkeypatch.setattr(tiles, "FP32_ROWS", 30)


class ShortStage(Stage):
    """As many rounds as are said to be enough."""

    def rounds(self, count: int, enough: int) -> range:
        return range(min(count, enough))


@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
@pytest.mark.parametrize("how", ["full", "response", "chunked", "fused"])
def test_on_meta(how: str, dtype: str, loss_dtype: str) -> None:
    for entropy, softcap, trains in product((False, True), repeat=3):
        batch = Batch(*SIZE, DTYPES[dtype], trains, "meta")
        head = head_of(
            batch,
            how,
            logits_dtype=loss_dtype,
            entropy=entropy,
            softcap=softcap,
            temperature_scaled=softcap,
        )
        seen = watch(batch, plain_policy(head))
        forward = loss_forward(head, objective="policy", role="policy")
        backward = loss_backward(head, objective="policy", role="policy")
        assert (total(forward), total(backward)) == (seen.forward, seen.backward)
        alone = watch(batch, silent(plain_scores(head, entropy)), backward=False)
        terms = logprob_forward(head, with_entropy=entropy, role="old")
        assert total(terms) == alone.forward


STEPS: list[tuple[str, Callable[[Any], Callable[[Batch], Any]]]] = [
    *((how, plain_policy) for how in ("full", "chunked", "fused")),
    *((how, plain_sft) for how in ("full", "chunked", "fused")),
    *(
        (how, lambda head, form=form: certain(head, form))
        for how, form in (("full", form) for form in certainty.WAYS)
    ),
]


def certain(head: Any, form: str) -> Callable[[Batch], Any]:
    scores = plain_certainty(head, form, with_gradient=True)
    return lambda batch: (scores(batch) * batch.advantages).mean()


@pytest.mark.parametrize(("how", "make"), STEPS)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_two_rounds_show_the_peak(
    how: str, make: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for entropy, softcap in product((False, True), repeat=2):
        seen = []
        for stage in (Stage, ShortStage):
            monkeypatch.setattr(head_steps, "Stage", stage)
            batch = Batch(*SIZE, DTYPES[dtype], device="meta")
            head = head_of(batch, how, entropy=entropy, softcap=softcap)
            seen.append(watch(batch, make(head)))
        assert seen[0] == seen[1]


class WrittenStage(Stage):
    """Writes down in which category it is."""

    inside: list[str] = []

    @contextmanager
    def region(self, *, role: str = "", category: str = "") -> Iterator[None]:
        self.inside.append(category)
        yield
        self.inside.pop()


class Sorted(LiveBytes):
    """Categories in which tensors over the vocabulary and weight gradients are made.

    Those that autograd's own backwards make are left out: no code of ours runs there.
    """

    def __init__(self, known: list[torch.Tensor]) -> None:
        super().__init__(known)
        self.found: set[tuple[str, str]] = set()

    def meet(self, storage: torch.UntypedStorage, origin: str) -> None:
        ours = torch._C._current_autograd_node() is None or in_function()
        known = storage._cdata in self.sizes or storage._cdata in self.outside
        if ours and not known:
            category = WrittenStage.inside[-1] if WrittenStage.inside else ""
            if storage.nbytes() == WEIGHT_BYTES:
                self.found.add(("weight", category))
            elif storage.nbytes() >= 4 * 30 * 400:
                self.found.add(("wide", category))
        super().meet(storage, origin)


WEIGHT_BYTES = 4 * SIZE[2] * SIZE[3]


@pytest.mark.parametrize(("how", "make"), STEPS)
def test_categories(how: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_steps, "Stage", WrittenStage)
    batch = Batch(*SIZE, torch.float32, device="meta")
    with Sorted(batch.tensors()) as watched:
        result = make(head_of(batch, how))(batch)
        (result[0] if isinstance(result, tuple) else result).backward()
    assert watched.found - {("weight", "gradients")} == {("wide", "logits")}
    assert ("weight", "gradients") in watched.found or how == "full"
    assert WrittenStage.inside == []
