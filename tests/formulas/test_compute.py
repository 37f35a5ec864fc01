"""FLOPs against hand arithmetic and torch's own counter; seconds against their rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Starcoder2Config,
    Starcoder2ForCausalLM,
)

from planner.catalog import Architecture, custom_gpu, gpu, parse_config
from planner.catalog.efficiencies import efficiencies
from planner.formulas.compute import (
    attention_flops,
    backward_flops,
    compute_seconds,
    forward_flops,
    head_flops,
    memory_rates,
)

TINY = Architecture(
    family="llama",
    hidden=32,
    layers=2,
    intermediate=48,
    heads=4,
    kv_heads=2,
    head_dim=8,
    vocab=64,
    max_positions=128,
    tied=False,
    norm="rmsnorm",
    activation="silu",
    gated=True,
)
ROWS, ROW = 2, 16
LLAMA = LlamaConfig(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=64,
)
QWEN3 = Qwen3Config(
    hidden_size=40,
    intermediate_size=56,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=1,
    head_dim=16,
    vocab_size=96,
)
GPT2 = GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=64, n_positions=64, n_inner=None)
QWEN3_MOE = Qwen3MoeConfig(
    hidden_size=40,
    intermediate_size=56,
    moe_intermediate_size=24,
    num_experts=6,
    num_experts_per_tok=2,
    mlp_only_layers=[1],
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=96,
)
# The counter knows no grouped product; a loop over experts multiplies the same rows.
QWEN3_MOE._experts_implementation = "eager"
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64, "num_attention_heads": 4}
GROUPED = {**SMALL, "num_key_value_heads": 2, "intermediate_size": 48, "pad_token_id": 0}
MODELS = [
    (GPTNeoXForCausalLM, GPTNeoXConfig(intermediate_size=72, **SMALL)),
    (Olmo2ForCausalLM, Olmo2Config(**GROUPED)),
    (Phi3ForCausalLM, Phi3Config(**GROUPED)),
    (Starcoder2ForCausalLM, Starcoder2Config(residual_dropout=0, embedding_dropout=0, **GROUPED)),
    (LlamaForCausalLM, LLAMA),
    (Qwen3ForCausalLM, QWEN3),
    (GPT2LMHeadModel, GPT2),
    (Qwen3MoeForCausalLM, QWEN3_MOE),
]


def architecture(config):
    found = parse_config(config.to_dict())
    return found.architecture if hasattr(found, "architecture") else found


def counted(counter):
    """Products of weights (mm, addmm) and of attention (bmm) that torch counted."""
    ops = {str(name): value for name, value in counter.get_flop_counts()["Global"].items()}
    weights = ops.get("aten.mm", 0) + ops.get("aten.addmm", 0)
    return weights, ops.get("aten.bmm", 0)


@pytest.mark.parametrize(
    ("kind", "config"), MODELS, ids=lambda value: getattr(value, "__name__", "")
)
def test_flops_are_those_that_torch_counts(kind, config):
    arch = architecture(config)
    model = kind._from_config(config, attn_implementation="eager")
    tokens = ROWS * ROW
    with FlopCounterMode(display=False) as forward:
        logits = model(torch.randint(0, config.vocab_size, (ROWS, ROW))).logits
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    weights, square = counted(forward)
    ours = forward_flops(arch, tokens=tokens, row_tokens=ROW, head=True)
    causal = attention_flops(arch, tokens=tokens, row_tokens=ROW)
    assert ours - causal == weights
    # Eager attention computes the whole square; a causal kernel the triangle with its diagonal.
    assert causal == square * (ROW + 1) / (2 * ROW)

    back = backward_flops(arch, tokens=tokens, row_tokens=ROW, recompute=False, weights_train=True)
    back_weights, back_square = counted(backward)
    assert back - 2.5 * causal == back_weights
    assert back_square == 2 * square


def test_attention_backward_is_two_and_a_half_forwards():
    shape = (ROWS, 4, ROW, 8)
    forward = sdpa_flop_count(shape, shape, shape)
    assert sdpa_backward_flop_count(shape, shape, shape, shape) == 2.5 * forward


def test_frozen_weights_halve_the_backward():
    model = LlamaForCausalLM._from_config(LLAMA, attn_implementation="eager").requires_grad_(False)
    inputs = torch.randn(ROWS, ROW, LLAMA.hidden_size, requires_grad=True)
    logits = model(inputs_embeds=inputs).logits
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    sizes = {"tokens": ROWS * ROW, "row_tokens": ROW}
    causal = attention_flops(TINY, **sizes)
    ours = backward_flops(TINY, **sizes, recompute=False, weights_train=False)
    assert ours - 2.5 * causal == counted(backward)[0]


def test_flops_by_hand():
    # One layer: q, o 2 x 32 x 32; k, v 2 x 32 x 16; gate, up, down 3 x 32 x 48 weights.
    weights = 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48)
    pairs = 5 * 6 // 2
    by_hand = 2 * 5 * weights + 2 * 4 * 32 * pairs
    assert forward_flops(TINY, tokens=5, row_tokens=5, head=False) == by_hand
    assert forward_flops(TINY, tokens=5, row_tokens=5, head=True) == by_hand + 2 * 5 * 32 * 64


def test_sliding_layers_see_only_their_window():
    slides = replace(TINY, sliding_window=4, sliding_layers=1)
    # Row of 10, window of 4: 1 + 2 + 3 + 7 x 4 pairs in the sliding layer, 55 in the other.
    assert attention_flops(slides, tokens=20, row_tokens=10) == 2 * 4 * 32 * (34 + 55)
    wide = replace(TINY, sliding_window=10, sliding_layers=2)
    assert attention_flops(wide, tokens=20, row_tokens=10) == attention_flops(
        TINY, tokens=20, row_tokens=10
    )


def test_recomputing_repeats_the_layers_and_not_the_head():
    sizes = {"tokens": 32, "row_tokens": 16, "weights_train": True}
    plain = backward_flops(TINY, recompute=False, **sizes)
    again = backward_flops(TINY, recompute=True, **sizes)
    assert again - plain == forward_flops(TINY, tokens=32, row_tokens=16, head=False)
    assert head_flops(TINY, tokens=32) == 2 * 32 * 32 * 64


CARD = gpu("h100-80gb")
SIZES = st.integers(1, 10**6)


@given(SIZES, SIZES, st.integers(1, 10**5))
def test_time_grows_with_tokens_and_with_rows(tokens, more, row):
    def seconds(tokens, row):
        flops = forward_flops(TINY, tokens=tokens, row_tokens=row, head=True)
        return compute_seconds(CARD, flops=flops, dtype="bf16", key="forward-compute")

    assert seconds(tokens + more, row) > seconds(tokens, row)
    assert seconds(tokens, row + more) > seconds(tokens, row)


@given(st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=5))
def test_an_array_gives_what_each_number_gives(pairs):
    arch = replace(TINY, sliding_window=100, sliding_layers=1)
    tokens, rows = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))

    def seconds(tokens, row):
        sizes = {"tokens": tokens, "row_tokens": row}
        flops = backward_flops(arch, recompute=True, weights_train=True, **sizes)
        return compute_seconds(CARD, flops=flops, dtype="bf16", key="training-compute")

    together = seconds(tokens, rows)
    apart = [seconds(one, row) for one, row in pairs]
    assert together.tolist() == pytest.approx(apart, rel=1e-12)


def test_unknown_rates_give_no_time():
    unknown = custom_gpu(80 * 10**9)
    assert compute_seconds(unknown, flops=1, dtype="bf16", key="training-compute") is None
    assert memory_rates(unknown) is None
    # A V100 has no bf16 tensor cores, so no published peak.
    sizes = {"flops": 1, "key": "forward-compute"}
    assert compute_seconds(gpu("v100-16gb"), dtype="bf16", **sizes) is None
    with pytest.raises(ValueError, match="dtype"):
        compute_seconds(CARD, dtype="int3", **sizes)


def test_a_share_between_bounds_is_a_time_between_their_quotients():
    shares = efficiencies()["training-compute"]
    assert shares.spread(CARD) == pytest.approx((0.45 / 0.58, 0.45 / 0.28))
