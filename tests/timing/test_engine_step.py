"""One step of an engine: kernels added up by hand, captured sizes, launches, and what never slows.

``LAYER`` is Llama-3.2-1B's: 16 of width 2,048, 32 heads of 64 with 8 key/value heads, MLP 8,192,
vocabulary 128,256.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accuracy.timings.engine_passes import decode_step_seconds, prefill_seconds
from planner.catalog import Architecture, custom_gpu, gpu
from planner.catalog import model as catalog_model
from planner.kernels import decode_attention_seconds, experts_seconds, products_seconds
from planner.speeds import Speed, Speeds
from planner.timing.engine_kernels import KNOTS, parts_of
from planner.timing.engine_step import Generator, padded

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
SHORTEST = 2.45e-6
"""The shortest product of the H100's table."""
COPIES = 0.77 * 3350e9
step = partial(decode_step_seconds, SMALL, H100, context_tokens=1000)


def product(rows: float, inner: int, outer: int, card=H100) -> float:
    return products_seconds(card, rows=rows, inner=inner, outer=outer, dtype="bf16")


def attention(
    sequences: float, context: float, heads: int = 32, kv_heads: int = 8, window: int = 0
) -> float:
    return decode_attention_seconds(
        H100,
        sequences=sequences,
        context_tokens=context,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=64,
        kv_value_bytes=2,
        window=window,
        dtype="bf16",
    )


@pytest.fixture
def quick_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that takes no time, where kernels alone are looked at."""
    monkeypatch.setattr(Generator, "host", lambda self, sequences: 0.0)


def layers(rows: int) -> float:
    shapes = ((2048, 2048 + 2 * 512), (2048, 2048), (2048, 2 * 8192), (8192, 2048))
    return 16 * sum(product(rows, *shape) for shape in shapes)


def small(rows: int) -> float:
    """Five kernels a layer: 8 rows of the width, q and k twice, k and v twice, MLP 3 times."""
    values = 8 * 2048 + 2 * (2048 + 512) + 4 * 512 + 3 * 8192
    return 16 * max(5 * SHORTEST, rows * values * 2 / COPIES)


def by_hand(rows: int, sequences: int, context: float, bytes_each: int = 42) -> float:
    sampler = max(10 * SHORTEST, rows * 128256 * bytes_each / COPIES)
    return (
        layers(rows)
        + small(rows)
        + 16 * attention(sequences, context)
        + product(rows, 2048, 128256)
        + sampler
    )


@pytest.mark.usefixtures("quick_host")
@pytest.mark.parametrize(("sequences", "rows"), [(32, 32), (256, 256), (97, 104), (258, 272)])
def test_a_step_is_its_kernels_at_the_captured_size(sequences: int, rows: int) -> None:
    found = step(sequences=sequences)
    # A longer batch's time stands in where the table has a shorter one slower: under 3 %.
    assert found == pytest.approx(by_hand(rows, sequences, 1000), rel=0.03)
    with_logprobs = step(sequences=sequences, logprobs=True)
    assert with_logprobs - found == pytest.approx(rows * 128256 * 16 / COPIES, rel=0.02)


TINY = replace(SMALL, layers=1, vocab=1024)


@pytest.mark.parametrize(("logprobs", "each"), [(False, 17.2e-6), (True, 17.2e-6 + 17.5e-6)])
def test_the_host_decides_where_the_card_is_quicker(logprobs: bool, each: float) -> None:
    found = decode_step_seconds(TINY, H100, sequences=256, context_tokens=64, logprobs=logprobs)
    # 2.3 ms a step, and so much for each of 256 sequences.
    assert found == pytest.approx(2.3e-3 + 256 * each)


def test_without_async_scheduling_host_and_card_take_turns() -> None:
    beside, in_turn = (
        decode_step_seconds(
            SMALL, H100, sequences=64, context_tokens=8000, async_scheduling=scheduled
        )
        for scheduled in (True, False)
    )
    # Behind so much context the card is the slower of the two.
    assert beside > 2.3e-3 + 64 * 17.2e-6
    assert in_turn - beside == pytest.approx(2.3e-3 + 64 * 17.2e-6)
    eager = {"sequences": 4, "context_tokens": 64, "eager": True, "async_scheduling": False}
    # Launches of 16 layers outlast what 4 sequences need of card and host together.
    assert decode_step_seconds(SMALL, H100, **eager) == pytest.approx(16 * 0.79e-3)
    transformers = {"sequences": 4, "context_tokens": 64, "engine": "hf"}
    assert decode_step_seconds(SMALL, H100, **transformers) == decode_step_seconds(
        SMALL, H100, **transformers, async_scheduling=False
    )


def test_without_graphs_the_host_launches_every_layer() -> None:
    assert step(sequences=4, eager=True) == pytest.approx(16 * 0.79e-3)
    assert step(sequences=4, engine="hf") == pytest.approx(16 * 0.88e-3)


def test_captured_sizes_are_those_of_vllm() -> None:
    asked = np.array([1, 1.2, 2, 3, 5, 9, 248, 249, 257, 511, 512, 513.5, 4000])
    graphs = [1, 2, 2, 4, 8, 16, 248, 256, 272, 512, 512, 513.5, 4000]
    assert padded(asked).tolist() == graphs
    assert [padded(one) for one in asked.tolist()] == graphs


@pytest.mark.usefixtures("quick_host")
def test_two_gpus_halve_the_layers_and_pay_reductions() -> None:
    sizes = {"sequences": 256, "context_tokens": 1000}
    two = decode_step_seconds(SMALL, H100, tensor_parallel=2, **sizes)
    halves = ((2048, 1024 + 2 * 256), (1024, 2048), (2048, 8192), (4096, 2048))
    computed = 16 * sum(product(256, *shape) for shape in halves)
    computed += 16 * attention(256, 1000, heads=16, kv_heads=4)
    computed += product(256, 2048, 64128) + 256 * 128256 * 42 / COPIES
    # At least two all-reduces of 1 MiB a layer at 900 GB/s, and half of the logits.
    assert two > computed + 2 * 16 * 2**20 / 900e9 + 256 * 64128 * 2 / 900e9
    assert two < computed + small(256) + 32 * 50e-6 + 1e-3


@pytest.mark.usefixtures("quick_host")
def test_a_mixture_reads_its_experts_by_the_tokens_that_meet_them() -> None:
    sparse = replace(SMALL, experts=64, experts_per_token=8, expert_intermediate=1024)
    dense, mixed = (
        decode_step_seconds(one, H100, sequences=64, context_tokens=1000) for one in (SMALL, sparse)
    )
    routed = experts_seconds(
        H100,
        tokens=64,
        hidden=2048,
        expert_intermediate=1024,
        experts=64,
        experts_per_token=8,
        dtype="bf16",
    )
    mlp = product(64, 2048, 2 * 8192) + product(64, 8192, 2048)
    router = product(64, 2048, 64)
    more = 16 * (routed + router - mlp + (9 - 5) * SHORTEST)
    assert mixed - dense == pytest.approx(more, rel=0.05)


@pytest.mark.usefixtures("quick_host")
def test_whole_experts_are_those_of_the_gpu_with_the_most_tokens() -> None:
    """Qwen3-30B-A3B over four GPUs: the wheel's row of 4,096 tokens took 0.492 ms, not 0.429."""
    qwen = catalog_model("Qwen/Qwen3-30B-A3B").architecture
    assert qwen is not None
    sliced, whole = (
        parts_of(
            qwen,
            H100,
            rows=4096,
            dtype="bf16",
            weights="bf16",
            tensor_parallel=4,
            expert_parallel=each,
            logprobs=False,
        )
        for each in (False, True)
    )
    assert sliced is not None and whole is not None
    more = 48 * (0.492122 - 0.429126) * 1e-3
    assert whole.products - sliced.products == pytest.approx(more, rel=0.02)
    assert whole[1:] == sliced[1:]


@pytest.mark.usefixtures("quick_host")
def test_a_window_ends_what_attention_reads() -> None:
    slides = replace(SMALL, sliding_window=256, sliding_layers=8)
    whole, half = (
        decode_step_seconds(one, H100, sequences=128, context_tokens=4000)
        for one in (SMALL, slides)
    )
    spared = 8 * (attention(128, 4000) - attention(128, 4000, window=256))
    assert whole - half == pytest.approx(spared)


def test_prompts_run_in_passes_of_so_many_tokens() -> None:
    shapes = {"prompts": 64, "prompt_tokens": 1024}
    once = prefill_seconds(SMALL, H100, **shapes)
    cut = prefill_seconds(SMALL, H100, **shapes, max_num_batched_tokens=256)
    assert cut > 1.1 * once
    # 2 x 64 x 1,024 positions of 973 M weights, at 989 TFLOP/s, and 100 % at best.
    least = 2 * 64 * 1024 * 16 * (2048 * 5120 + 3 * 2048 * 8192) / 989e12
    assert least < once < 3 * least


def test_unknown_peaks_give_no_time() -> None:
    for card in (custom_gpu(80 * 10**9), gpu("v100-16gb")):
        assert decode_step_seconds(SMALL, card, sequences=1, context_tokens=1) is None


FIXED = tuple(
    Speed(key, share, share, share)
    for key, share in (("forward-compute", 0.6), ("decode-bandwidth", 0.8))
)
CARD = H100.with_speeds(
    Speeds(gpu="h100-80gb", torch="2.13.0", driver="", date="2026-01-01", speeds=FIXED)
)
BATCHES = st.integers(1, 600)
CONTEXTS = st.integers(16, 20_000)


@given(BATCHES, CONTEXTS, st.sampled_from(["bandwidth_bytes_per_second", "bf16_flops_per_second"]))
@settings(max_examples=40, deadline=None)
def test_more_bandwidth_or_compute_is_never_slower(batch: int, context: int, rate: str) -> None:
    better = replace(CARD, **{rate: 1.5 * getattr(CARD, rate)})
    sizes = {"sequences": batch, "context_tokens": context}
    assert decode_step_seconds(SMALL, better, **sizes) <= decode_step_seconds(SMALL, CARD, **sizes)


@given(BATCHES, CONTEXTS)
@settings(max_examples=40, deadline=None)
def test_eager_is_never_faster_than_graphs_of_the_same_rows(batch: int, context: int) -> None:
    rows = int(padded(batch))
    assert step(sequences=rows, eager=True) >= step(sequences=rows)


@given(st.lists(st.tuples(BATCHES, CONTEXTS), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_an_array_gives_what_each_number_gives(points: list[tuple[int, int]]) -> None:
    batches, contexts = (np.array(column) for column in zip(*points, strict=True))
    together = decode_step_seconds(SMALL, H100, sequences=batches, context_tokens=contexts)
    apart = [
        decode_step_seconds(SMALL, H100, sequences=batch, context_tokens=context)
        for batch, context in points
    ]
    assert together.tolist() == pytest.approx(apart)


def test_more_rows_are_never_quicker() -> None:
    rows = KNOTS[KNOTS <= 512]
    found = step(sequences=rows, context_tokens=16)
    assert (np.diff(found) >= -1e-12).all()


def test_twice_the_prompts_in_one_pass_take_twice_as_long_beyond_the_last_knot() -> None:
    """transformers' generate computes all prompts at once, however many tokens they are."""
    generator = Generator(arch=SMALL, gpu=H100, dtype="bf16", engine="hf")
    last = int(KNOTS[-1])
    seconds = [generator.prefill(times * last)[0] for times in (1, 2, 16)]
    assert seconds == pytest.approx([seconds[0], 2 * seconds[0], 16 * seconds[0]])
    together = generator.prefill(np.array([last // 2, last, 2 * last, 16 * last]))[0]
    assert together[1:] == pytest.approx(seconds) and together[0] < together[1]
