"""What kernels beside the products move, against transformers' own layers as torch runs them."""

from __future__ import annotations

import shutil
from functools import cache
from typing import Any

import pytest
from transformers import GPT2Config, LlamaConfig, PretrainedConfig, Qwen3Config

from planner.catalog import Architecture, parse_config
from planner.formulas.memory_bound import (
    FUSED,
    adapter_bytes,
    layer_bytes,
    layer_kernels,
    loss_bytes,
    score_bytes,
)
from timing.dispatched import TOKENS, Counted, layer
from timing.fused import compiled_bytes

SIZES: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 128,
}


def config(kind: Any, layers: int, **more: Any) -> PretrainedConfig:
    return kind(num_hidden_layers=layers, **{**SIZES, **more})


@cache
def counted(kind: Any, how: str, attention: str = "sdpa") -> tuple[Counted, Counted]:
    return layer(lambda layers: config(kind, layers), how, attention)


def architecture(kind: Any) -> Architecture:
    found = parse_config(config(kind, 2).to_dict())
    return getattr(found, "architecture", found)


@pytest.mark.parametrize("kind", [LlamaConfig, Qwen3Config])
@pytest.mark.parametrize(
    ("how", "mode", "value_bytes"),
    [("bf16", "eager", 2), ("fp32", "eager", 4), ("autocast", "autocast", 2)],
)
def test_an_eager_layer_moves_what_torch_is_given(
    kind: Any, how: str, mode: str, value_bytes: int
) -> None:
    arch = architecture(kind)
    forward, backward = counted(kind, how)
    of = layer_bytes(arch, mode, value_bytes, False), layer_bytes(arch, mode, value_bytes, True)
    assert of[0] == pytest.approx(forward.bytes_a_token, rel=0.05)
    assert of[1] == pytest.approx(backward.bytes_a_token, rel=0.05)


@pytest.mark.parametrize("kind", [LlamaConfig, Qwen3Config])
def test_a_layer_launches_as_many_kernels_as_torch_does(kind: Any) -> None:
    forward, backward = counted(kind, "bf16")
    expected = layer_kernels(architecture(kind), "eager", "sdpa", 0)
    assert expected == pytest.approx(forward.kernels, abs=2)
    # The floor's assumption: a backward launches about twice as many.
    assert 1.7 < backward.kernels / forward.kernels < 2.2


def test_eager_attention_moves_its_square_of_scores() -> None:
    """Twice the row has twice the scores a token, beside what the layer moves anyway."""
    quick, slow = (counted(LlamaConfig, "bf16", how) for how in ("sdpa", "eager"))
    for which in (0, 1):
        each = score_bytes(architecture(LlamaConfig), "eager", 2, bool(which))
        # A square's slope over rows of 1 and 2 times TOKENS is three rows' worth a token.
        more = slow[which].bytes_a_token - quick[which].bytes_a_token
        assert more == pytest.approx(3 * TOKENS * SIZES["num_attention_heads"] * each, rel=0.1)


def test_a_layer_norm_is_one_kernel_and_moves_little() -> None:
    plain = parse_config(GPT2Config(n_embd=512, n_head=8, n_layer=2).to_dict())
    arch = getattr(plain, "architecture", plain)
    llama = architecture(LlamaConfig)
    assert layer_kernels(arch, "eager", "sdpa", 0) < layer_kernels(llama, "eager", "sdpa", 0) / 2
    assert layer_bytes(arch, "eager", 2, True) < layer_bytes(llama, "eager", 2, True)


@pytest.mark.parametrize("mode", FUSED)
def test_fused_kernels_move_less_and_launch_less(mode: Any) -> None:
    arch = architecture(Qwen3Config)
    for backward in (False, True):
        assert layer_bytes(arch, mode, 2, backward) < layer_bytes(arch, "eager", 2, backward) / 2
    assert layer_kernels(arch, mode, "sdpa", 0) < layer_kernels(arch, "eager", "sdpa", 0) / 2


def test_compiled_layers_move_less_than_ligers() -> None:
    """By the residual sum and the heads' transposes, which Liger leaves to torch."""
    arch = architecture(LlamaConfig)
    for backward in (False, True):
        liger, compiled = (layer_bytes(arch, mode, 2, backward) for mode in FUSED)
        assert 0.8 * liger < compiled < liger


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor compiles with g++")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_layer_moves_what_inductor_schedules() -> None:
    given = config(LlamaConfig, 1)
    arch = architecture(LlamaConfig)
    for backward, moved in zip((False, True), compiled_bytes(given), strict=True):
        tables = 8 * SIZES["head_dim"]  # cosines and sines, for queries and for keys
        assert layer_bytes(arch, "compiled", 2, backward) + tables == pytest.approx(moved, rel=0.02)


def test_the_losses_passes_by_hand() -> None:
    sizes = {"tokens": 10, "vocab": 1000, "wide": 4, "entropy": False, "fused": False}
    # bf16 logits read, fp32 written; log-softmax reads and writes them: 6 + 8 bytes.
    assert loss_bytes(**sizes, scaled=False, backward=False) == 10_000 * 14
    # A temperature reads and writes once more; back: two read, one written, and the cast.
    assert loss_bytes(**sizes, scaled=True, backward=False) == 10_000 * 22
    assert loss_bytes(**sizes, scaled=False, backward=True) == 10_000 * (12 + 6)
    assert loss_bytes(**{**sizes, "fused": True}, scaled=False, backward=True) == 0


def test_an_adapter_in_half_precision_moves_less() -> None:
    wide, half = (adapter_bytes(1, 1, wide=each, drops=False, backward=False) for each in (1, 0))
    assert (wide, half) == (30, 10)
