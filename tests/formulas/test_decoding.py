"""Rollout seconds: the closed form against a loop over steps, waves, engines, arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import Architecture, custom_gpu, gpu
from planner.formulas.compute import forward_seconds
from planner.formulas.decoding import decode_seconds

SMALL = Architecture(
    family="llama",
    hidden=2048,
    layers=16,
    intermediate=8192,
    heads=32,
    kv_heads=8,
    head_dim=64,
    vocab=128256,
    max_positions=8192,
    tied=True,
    norm="rmsnorm",
    activation="silu",
    gated=True,
)
H100 = gpu("h100-80gb")
DEFAULTS = {
    "sequences": 32,
    "prompt_tokens": 100,
    "response_tokens": 50,
    "dtype": "bf16",
    "tensor_parallel": 1,
    "engine": "vllm",
    "max_num_seqs": 256,
    "kv_value_bytes": 2,
}


def seconds(arch=SMALL, card=H100, **changes):
    return decode_seconds(arch, card, **{**DEFAULTS, **changes})


def step_by_step(sequences, prompt, response, window=0, sliding=0, launch=0.0):
    """The same rollout on one H100, one step at a time, with the numbers written out."""
    per_layer = 2048 * 2048 * 2 + 2 * 2048 * 512 + 3 * 2048 * 8192
    weights = 16 * per_layer + 2048 * 128256
    compute, bandwidth = 0.58 * 989e12, 0.80 * 3350e9
    prefill = 2 * 16 * per_layer * sequences * prompt
    for layer in range(16):
        reach = window if layer < sliding else prompt
        prefill += 4 * 2048 * sequences * sum(min(i, reach) for i in range(1, prompt + 1))
    total = prefill / compute
    for token in range(1, response + 1):
        context = prompt + token
        cached = (16 - sliding) * context + sliding * min(context, window or context)
        products = max(2 * weights / bandwidth, 2 * weights * sequences / compute)
        total += max(products + 16 * 66e-6 * (launch == 0), 16 * launch)
        total += sequences * cached * 2 * 512 * 2 / bandwidth
    return total


@pytest.mark.parametrize("sequences", [1, 32, 256])
def test_the_closed_form_is_the_sum_over_steps(sequences):
    assert seconds(sequences=sequences) == pytest.approx(step_by_step(sequences, 100, 50))


def test_the_closed_form_with_a_window_that_fills_half_way():
    arch = replace(SMALL, sliding_window=120, sliding_layers=8)
    expected = step_by_step(32, 100, 50, window=120, sliding=8)
    assert seconds(arch) == pytest.approx(expected)
    narrow = replace(SMALL, sliding_window=30, sliding_layers=8)
    assert seconds(narrow) == pytest.approx(step_by_step(32, 100, 50, window=30, sliding=8))


SPARSE = replace(SMALL, experts=64, experts_per_token=8, expert_intermediate=1024)
"""As many FLOPs a token as ``SMALL``, the router aside."""


@pytest.mark.parametrize("running", [1, 4, 32])
def test_a_step_reads_the_experts_that_its_tokens_chose(running):
    """Drawn at random, counted, and read at the card's bandwidth beside what all tokens use."""
    random = np.random.default_rng(0)
    draws = [
        len({e for _ in range(running) for e in random.choice(64, 8, replace=False)})
        for _ in range(400)
    ]
    one_expert = 16 * 3 * 2048 * 1024 * 2 / (0.80 * 3350e9)
    router = 16 * 2048 * 64 * 2 / (0.80 * 3350e9)
    extra = seconds(SPARSE, sequences=running, prompt_tokens=1) - seconds(
        sequences=running, prompt_tokens=1
    )
    read = extra - 50 * router
    assert read / 50 == pytest.approx((np.mean(draws) - 8) * one_expert, rel=0.02, abs=1e-5)


def test_transformers_waits_for_the_host():
    expected = step_by_step(4, 100, 50, launch=0.88e-3)
    assert seconds(sequences=4, engine="hf") == pytest.approx(expected)


def test_sequences_beyond_the_limit_run_in_waves():
    full, rest = seconds(sequences=256), seconds(sequences=88)
    assert seconds(sequences=600) == pytest.approx(2 * full + rest)
    assert seconds(sequences=512) == pytest.approx(2 * full)
    assert seconds(sequences=512, concurrent=128) == pytest.approx(4 * seconds(sequences=128))
    assert seconds(sequences=512, concurrent=10**6) == pytest.approx(2 * full)


def test_two_gpus_halve_reads_and_pay_reductions():
    one, two = seconds(sequences=256), seconds(sequences=256, tensor_parallel=2)
    assert one / 2 < two < one
    # Two all-reduces of 256 x 2048 bf16 values a layer and step, over half of 900 GB/s at 80 %;
    # with as many key/value heads as GPUs or more, everything else is halved, fixed time aside.
    reduction = 2 * 16 * (256 * 2048 * 2 / (0.8 * 450e9) + 13.6e-6)
    fixed = 16 * 66e-6
    assert two == pytest.approx((one - 50 * fixed) / 2 + 50 * (fixed + reduction))


def test_more_gpus_than_key_value_heads_read_no_less_cache():
    """Eight heads on sixteen GPUs: each GPU still reads one whole head."""
    few, many = (
        seconds(sequences=64, prompt_tokens=4000, tensor_parallel=gpus)
        - seconds(sequences=64, prompt_tokens=1, tensor_parallel=gpus)
        - prefill(gpus)
        for gpus in (8, 16)
    )
    assert few == pytest.approx(many)


def prefill(gpus):
    """Seconds of 64 prompts of 4,000 tokens rather than of one."""
    long, short = (
        forward_seconds(
            SMALL, H100, tokens=64 * length, row_tokens=length, dtype="bf16", head=False
        )
        for length in (4000, 1)
    )
    return (long - short) / gpus


def test_unknown_peaks_give_no_time_and_unknown_engines_are_refused():
    assert seconds(card=custom_gpu(80 * 10**9)) is None
    assert seconds(card=gpu("v100-16gb")) is None
    with pytest.raises(ValueError, match="engine"):
        seconds(engine="tgi")


LENGTHS = st.integers(1, 4096)


@given(st.integers(1, 600), LENGTHS, LENGTHS, st.integers(1, 500), st.booleans())
@settings(max_examples=60)
def test_time_grows_with_every_length(sequences, prompt, response, more, slides):
    arch = replace(SMALL, sliding_window=512, sliding_layers=8) if slides else SMALL

    def at(sequences, prompt, response):
        return seconds(arch, sequences=sequences, prompt_tokens=prompt, response_tokens=response)

    base = at(sequences, prompt, response)
    assert at(sequences + more, prompt, response) > base * (1 - 1e-12)
    assert at(sequences, prompt + more, response) > base
    assert at(sequences, prompt, response + more) > base


@given(st.lists(st.tuples(st.integers(1, 600), LENGTHS, LENGTHS), min_size=1, max_size=5))
@settings(max_examples=40)
def test_an_array_gives_what_each_number_gives(points):
    arch = replace(SMALL, sliding_window=512, sliding_layers=8)
    names = ("sequences", "prompt_tokens", "response_tokens")
    columns = {
        name: np.array([point[index] for point in points], dtype=np.int64)
        for index, name in enumerate(names)
    }
    together = seconds(arch, **columns)
    apart = [seconds(arch, **dict(zip(names, point, strict=True))) for point in points]
    assert together.tolist() == pytest.approx(apart)
