"""The loss's forward and backward against real runs, to the byte."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from framework_steps import (
    chunked,
    fused_trl,
    gpu_kernels,
    trl_kernel,
    trl_loop,
    verl_packed,
)
from head_steps import (
    DTYPES,
    LOSS_DTYPES,
    SIZES,
    Batch,
    head_of,
    loss_backward,
    loss_forward,
    plain_policy,
    plain_sft,
    total,
    visible,
    watch,
)
from planner.formulas.logits import Head, backward_instants, forward_instants

torch.set_num_threads(1)


SWITCHES = ("entropy", "softcap", "temperature_scaled", "logits_held")


def check(head: Head, batch: Batch, step: Any, objective: str) -> None:
    seen = watch(batch, step)
    forward = loss_forward(head, objective=objective, role="actor")
    backward = loss_backward(head, objective=objective, role="actor")
    assert (total(forward), total(backward)) == (seen.forward, seen.backward)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
def test_plain_policy(size: tuple[int, int, int, int], dtype: str, loss_dtype: str) -> None:
    for flags in product((False, True), repeat=len(SWITCHES)):
        switches = dict(zip(SWITCHES, flags, strict=True))
        for trains in (True, False):
            batch = Batch(*size, DTYPES[dtype], trains)
            head = head_of(batch, logits_dtype=loss_dtype, **switches)
            check(head, batch, plain_policy(head), "policy")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_hugging_face_sft(size: tuple[int, int, int, int], dtype: str) -> None:
    for softcap, held, trains in product((False, True), repeat=3):
        batch = Batch(*size, DTYPES[dtype], trains)
        head = head_of(batch, softcap=softcap, logits_held=held)
        check(head, batch, plain_sft(head), "cross-entropy")


TILED_SIZES = [*SIZES, (1, 100, 3001, 90)]


@pytest.mark.parametrize("size", TILED_SIZES)
@pytest.mark.parametrize(("dtype", "device"), [("bf16", "meta"), ("fp32", "meta"), ("fp32", "cpu")])
def test_plain_fused(size: tuple[int, int, int, int], dtype: str, device: str) -> None:
    for entropy, trains, softcap in product((False, True), repeat=3):
        batch = Batch(*size, DTYPES[dtype], trains, device)
        head = head_of(batch, "fused", entropy=entropy, softcap=softcap)
        check(head, batch, plain_policy(head), "policy")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("objective", ["policy", "cross-entropy"])
def test_trl_fused(
    size: tuple[int, int, int, int], dtype: str, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for entropy, trains in product((False, objective == "policy"), (False, True)):
        rows, length, vocab, hidden = size
        batch = Batch(rows, length, vocab, hidden, DTYPES[dtype], trains)
        head = head_of(
            batch,
            "fused",
            tokens=rows * (length - 1),
            entropy=entropy,
            framework="trl",
            framework_version="1.16.0",
        )
        with gpu_kernels(monkeypatch):
            check(head, batch, fused_trl(head, objective), objective)


CHUNK_SIZES = [(1, 300, 257, 32), (8, 64, 257, 33), (1, 600, 257, 32), (1, 700, 63, 900)]
CHUNK_SIZES += [(2, 520, 131, 1600), (1, 520, 131, 700), (4, 300, 131, 900)]


@pytest.mark.parametrize("size", CHUNK_SIZES)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_verl_chunks(size: tuple[int, int, int, int], dtype: str) -> None:
    for entropy, trains in product((False, True), repeat=2):
        batch = Batch(*size, DTYPES[dtype], trains)
        # verl's kernel makes a weight gradient for a frozen head too.
        verl = {"framework": "verl", "framework_version": "0.9.1"}
        head = head_of(batch, "chunked", entropy=entropy, **verl)
        check(head, batch, chunked(head), "policy")


@pytest.mark.parametrize("size", CHUNK_SIZES)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_plain_chunks(size: tuple[int, int, int, int], dtype: str, device: str) -> None:
    for entropy, trains, softcap in product((False, True), repeat=3):
        batch = Batch(*size, DTYPES[dtype], trains, device)
        head = head_of(
            batch, "chunked", entropy=entropy, softcap=softcap, temperature_scaled=softcap
        )
        check(head, batch, plain_policy(head), "policy")


RESPONSE_SIZES = [(1, 62, 501, 32), (8, 14, 701, 33), (2, 300, 257, 64), (1, 301, 509, 32)]
RESPONSE_SIZES += [(3, 6, 501, 300)]


def check_visible(head: Head, batch: Batch, step: Any) -> None:
    seen = watch(batch, step)
    forward = forward_instants(head, objective="policy", role="actor")
    backward = backward_instants(head, objective="policy", role="actor")
    assert (visible(forward), visible(backward)) == (seen.forward, seen.backward)


@pytest.mark.parametrize("size", RESPONSE_SIZES)
@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
@pytest.mark.parametrize("version", ["1.13.0", "1.14.0"])
def test_older_trl(
    size: tuple[int, int, int, int], dtype: str, loss_dtype: str, version: str
) -> None:
    kernel = version == "1.14.0"
    for softcap, trains, entropy in product((False, True), (False, True), (False, kernel)):
        batch = Batch(*size, DTYPES[dtype], trains)
        head = head_of(
            batch,
            "response",
            logits_dtype=loss_dtype,
            softcap=softcap,
            entropy=entropy,
            framework="trl",
            framework_version=version,
        )
        check_visible(head, batch, trl_kernel(head) if kernel else trl_loop(head))


PACKED_SIZES = [(1, 77, 501, 32), (1, 13, 501, 200), (1, 301, 509, 64)]


@pytest.mark.parametrize("size", PACKED_SIZES)
@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
def test_verl_packed(size: tuple[int, int, int, int], dtype: str, loss_dtype: str) -> None:
    for softcap, trains, entropy, scaled in product((False, True), repeat=4):
        batch = Batch(*size, DTYPES[dtype], trains)
        head = head_of(
            batch,
            logits_dtype=loss_dtype,
            softcap=softcap,
            entropy=entropy,
            temperature_scaled=scaled,
            framework="verl",
            framework_version="0.9.1",
        )
        check_visible(head, batch, verl_packed(head))
