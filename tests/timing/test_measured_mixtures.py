"""A mixture whose layers were measured takes as long as if its sum were derived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from accuracy.timings.engine_passes import decode_step_seconds, prefill_seconds
from planner.catalog import measured
from planner.catalog.architecture import Architecture
from planner.catalog.gpu_catalog import gpu
from planner.catalog.model_catalog import model
from planner.formulas import parameters
from planner.timing import layers

DERIVED = model("Qwen/Qwen3-30B-A3B").architecture
assert DERIVED is not None
CARDS = ("h100-80gb", "a100-80gb")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Architecture]:
    """The same model with the list of weights that a measurement has, and nothing derived."""
    arch = DERIVED
    rows = []
    for one in parameters.weights(arch):
        widths = {"experts": (0, 0), "router": (arch.hidden, arch.experts)}
        ins, outs = widths.get(one.kind, (one.in_features, one.out_features))
        places = "1" * arch.layers if one.per_layer else ""
        rows.append([one.name, one.kind, one.elements, ins, outs, places])
    own: dict[str, Any] = {"weights": rows, "tables": ()}
    entry = measured.entry
    monkeypatch.setattr(measured, "entry", lambda key: own if key == "listed" else entry(key))
    yield replace(arch, measured="listed")
    parameters.weights.cache_clear()


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16])
def test_engine_of_a_list_of_weights(listed: Architecture, card: str, parts: int) -> None:
    for spread in (False, True):
        for sequences in (1, 64, 1024):
            sizes: dict[str, Any] = {"sequences": sequences, "context_tokens": 2048}
            sizes |= {"tensor_parallel": parts, "expert_parallel": spread}
            both = [decode_step_seconds(arch, gpu(card), **sizes) for arch in (DERIVED, listed)]
            assert both[1] == pytest.approx(both[0], rel=0.1)
    prompts: dict[str, Any] = {"prompts": 8, "prompt_tokens": 1024, "tensor_parallel": parts}
    both = [prefill_seconds(arch, gpu(card), **prompts) for arch in (DERIVED, listed)]
    assert both[1] == pytest.approx(both[0], rel=0.1)


def test_trainer_of_a_list_of_weights(listed: Architecture) -> None:
    derived, own = layers.projections(DERIVED), layers.projections(listed)
    assert layers.elements(own) == pytest.approx(layers.elements(derived), rel=0.001)
    for card in CARDS:
        asked = [
            layers.experts_kernels(gpu(card), arch, 64.0, "bf16") for arch in (DERIVED, listed)
        ]
        assert asked[1] == asked[0]
    tokens = 4096.0
    for flops in (layers.experts_flops, layers.projections_flops):
        both = [flops(arch, tokens=tokens) for arch in (DERIVED, listed)]
        assert both[1] == pytest.approx(both[0], rel=0.001)


def test_a_step_reads_the_experts_that_it_touches() -> None:
    """DeepSeek-V3 on 16 H200, 64 sequences: 14.8 ms of experts alone; as one matrix 12.6."""
    arch, card = model("deepseek-ai/DeepSeek-V3").architecture, gpu("h200-141gb")
    assert arch is not None
    sizes: dict[str, Any] = {"sequences": 64, "context_tokens": 512, "tensor_parallel": 16}
    seconds = decode_step_seconds(arch, card, **sizes)
    met = 256 * (1 - (1 - 8 / 256) ** 64)
    read = 58 * met * 3 * 7168 * 2048 * 2 / 16 / card.bandwidth_bytes_per_second
    assert seconds is not None and seconds > read > 0.0147


def test_experts_of_two_matrices_are_two_thirds_as_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["l.{layer}.experts.up", "experts", 8 * 64 * 96, 0, 0, "11"]]
    rows += [["l.{layer}.experts.down", "experts", 8 * 64 * 96, 0, 0, "11"]]
    own = {"weights": rows, "tables": ()}
    monkeypatch.setattr(measured, "entry", lambda key: own)
    arch = replace(DERIVED, measured="two", layers=2, hidden=64, experts=8, experts_per_token=2)
    assert parameters.expert_width(arch) == 64
    assert layers.experts_flops(arch, tokens=1) == 2 * 2 * 2 * 2 * 64 * 96
