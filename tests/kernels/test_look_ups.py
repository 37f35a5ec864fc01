"""Seconds of single kernels: what was measured comes back, between it nothing jumps or breaks."""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from planner import kernels
from planner.catalog.gpu_catalog import Gpu, custom_gpu, gpu, gpus
from planner.speeds import Speed, SpeedKey, Speeds

H100 = gpu("h100-80gb")
Look = Callable[..., Any]

DENSE = {"inner": 4096, "outer": 4096, "dtype": "bf16"}
HEADS = {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bf16"}
MIXTURE = {
    "hidden": 2048,
    "expert_intermediate": 768,
    "experts": 128,
    "experts_per_token": 8,
    "dtype": "bf16",
}
LOOKS: dict[str, tuple[Look, dict[str, Any]]] = {
    "products": (kernels.products_seconds, {"rows": 100, **DENSE}),
    "prefill": (kernels.prefill_attention_seconds, {"sequences": 3, "tokens": 700, **HEADS}),
    "decode": (
        kernels.decode_attention_seconds,
        {"sequences": 48, "context_tokens": 3000, "kv_value_bytes": 2, **HEADS},
    ),
    "experts": (kernels.experts_seconds, {"tokens": 300, **MIXTURE}),
    "reduce": (kernels.reduce_seconds, {"size_bytes": 3_000_000, "ranks": 4}),
    "collective": (
        lambda card, **sizes: kernels.collective_seconds(card, kind="all_gather", **sizes),
        {"size_bytes": 3_000_000, "ranks": 4},
    ),
}
KEY = attrgetter("key")
ROOFED = ("products", "prefill", "decode", "experts")
each = pytest.mark.parametrize("name", LOOKS)


def sizes_of(name: str) -> list[str]:
    return [size for size, value in LOOKS[name][1].items() if not isinstance(value, str)]


def measured(card: str, look: Look, **sizes: Any) -> float:
    found = look(gpu(card), **sizes)
    assert isinstance(found, float)
    return found * 1e3


def test_what_was_measured_comes_back() -> None:
    """Milliseconds as the wheel has them; the tables round to half a per cent."""
    products = kernels.products_seconds
    near = pytest.approx
    assert measured("h100-80gb", products, rows=4096, **DENSE) == near(0.166025784, rel=5e-3)
    wide = {"rows": 16, "inner": 4096, "outer": 6144, "dtype": "bf16"}
    assert measured("h100-80gb", products, **wide) == near(0.0209822224, rel=5e-3)
    fp8 = {"rows": 8192, "inner": 4096, "outer": 12288, "dtype": "fp8"}
    assert measured("h100-80gb", products, **fp8) == near(0.744887988, rel=5e-3)
    assert measured("l40s", products, rows=4096, **DENSE) == near(0.624896, rel=5e-3)
    assert measured("a100-80gb", products, rows=4096, **DENSE) == near(0.53948, rel=5e-3)
    long = {"sequences": 4, "tokens": 4096, **HEADS}
    prefill = kernels.prefill_attention_seconds
    # One of several rows that do the same work on other heads.
    assert measured("h100-80gb", prefill, **long) == near(1.01101867, rel=0.03)
    decode = kernels.decode_attention_seconds
    full = {"sequences": 64, "context_tokens": 2048, "kv_value_bytes": 2, **HEADS}
    assert measured("h100-80gb", decode, **full) == near(0.18667734, rel=0.03)
    short = {"sequences": 8, "context_tokens": 128, **HEADS}
    assert measured("h100-80gb", decode, **short, kv_value_bytes=2) == near(0.0125973, rel=0.05)
    assert measured("h100-80gb", decode, **short, kv_value_bytes=1) == near(0.0154453, rel=0.05)
    cut = {"sequences": 256, "context_tokens": 1024, "heads": 64, "kv_heads": 8, "head_dim": 64}
    windowed = {**cut, "window": 128, "kv_value_bytes": 2, "dtype": "bf16"}
    assert measured("h100-80gb", decode, **windowed) == near(0.11081067, rel=0.05)
    experts = kernels.experts_seconds
    assert measured("h100-80gb", experts, tokens=4096, **MIXTURE) == near(1.0297472, rel=5e-3)
    reduced = measured("h100-80gb", kernels.reduce_seconds, size_bytes=2**22, ranks=8)
    assert reduced == near(0.03081248, rel=5e-3)
    gather = {"kind": "all_gather", "size_bytes": 2**27, "ranks": 8}
    assert measured("h100-80gb", kernels.collective_seconds, **gather) == near(0.39282, rel=5e-3)


@each
def test_numbers_and_arrays_agree(name: str) -> None:
    look, sizes = LOOKS[name]
    for size in sizes_of(name):
        if size == "kv_value_bytes":
            continue
        several = np.array([1, 2, 3, 5, 8]) if size in ("ranks", "experts_per_token") else None
        if several is None:
            several = sizes[size] * np.array([1, 2, 3, 7, 50])
        if size == "ranks":
            several = np.array([1, 2, 3, 4, 8])
        one_by_one = [look(H100, **{**sizes, size: value}) for value in several.tolist()]
        assert all(isinstance(value, float) for value in one_by_one)
        assert look(H100, **{**sizes, size: several}) == pytest.approx(one_by_one, rel=1e-12)


@each
def test_two_arrays_agree_on_a_mesh_and_element_by_element(name: str) -> None:
    look, sizes = LOOKS[name]
    first, second = sizes_of(name)[:2]
    if first == "size_bytes":
        across, down = np.array([1000, 3_000_000, 10**9]), np.array([2, 3, 8])
    else:
        across, down = (sizes[one] * np.array([1, 3, 40]) for one in (first, second))
    mesh = look(H100, **{**sizes, first: across, second: down[:, None]})
    assert mesh.shape == (3, 3)
    flipped = look(H100, **{**sizes, first: across[:, None], second: down})
    assert pytest.approx(mesh, rel=1e-12) == flipped.T
    pair = look(H100, **{**sizes, first: across, second: down})
    assert pair == pytest.approx(np.diag(mesh), rel=1e-12)
    assert mesh[2, 0] == pytest.approx(
        look(H100, **{**sizes, first: across[:1][0].item(), second: down[2].item()}), rel=1e-12
    )


def test_three_arrays_broadcast() -> None:
    rows, outer, inner = np.ix_([7, 300], [500, 5000, 50_000], [64, 4096])
    found = kernels.products_seconds(H100, rows=rows, outer=outer, inner=inner, dtype="bf16")
    assert found.shape == (2, 3, 2)
    one = kernels.products_seconds(H100, rows=300, outer=500, inner=4096, dtype="bf16")
    assert found[1, 0, 1] == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize("name", ROOFED)
@pytest.mark.parametrize("card", [card for card in gpus() if kernels.tables_of(card)], ids=KEY)
def test_nothing_is_faster_than_its_roofline(name: str, card: Gpu) -> None:
    """L40S keeps 96 MB in its cache, and was measured at thrice its memory's bandwidth."""
    look, sizes = LOOKS[name]
    sizes = {**sizes, "dtype": "bf16" if card.bf16_flops_per_second else "fp16"}
    several = sizes[sizes_of(name)[0]] * np.geomspace(0.02, 300, 40)
    found = kernels.explain(name, card, **sizes)
    assert found is not None
    assert found.share <= 1.0
    assert found.seconds == pytest.approx(look(card, **sizes), rel=1e-12)
    assert np.isfinite(look(card, **{**sizes, sizes_of(name)[0]: several})).all()


def test_a_share_above_one_is_capped() -> None:
    """1 x 1024 x 1024 took 2.87 microseconds, its two megabytes 2.43 from memory: no cap there;
    larger weights that the cache holds were read faster than memory can give them."""
    card = gpu("l40s")
    bytes_per_second = card.bandwidth_bytes_per_second
    assert bytes_per_second
    small = kernels.products_seconds(card, rows=1, inner=1024, outer=1024, dtype="bf16")
    assert small == pytest.approx(2.87289e-6, rel=5e-3)
    sizes = np.array([2048, 2560, 3072])
    found = kernels.products_seconds(card, rows=1, inner=2048, outer=sizes, dtype="bf16")
    assert (found >= 2 * 2048 * sizes / bytes_per_second).all()


def test_beyond_the_tables_time_grows_with_the_work() -> None:
    edge = kernels.products_seconds(H100, rows=32768, inner=8192, outer=65536, dtype="bf16")
    beyond = kernels.products_seconds(H100, rows=131_072, inner=8192, outer=262_144, dtype="bf16")
    assert beyond == pytest.approx(16 * edge, rel=1e-2)


@pytest.mark.parametrize("name", ROOFED)
def test_a_faster_card_of_the_same_shares_is_never_slower(name: str) -> None:
    look, sizes = LOOKS[name]
    assert H100.bandwidth_bytes_per_second and H100.bf16_flops_per_second
    wider = replace(H100, bandwidth_bytes_per_second=2 * H100.bandwidth_bytes_per_second)
    denser = replace(H100, bf16_flops_per_second=2 * H100.bf16_flops_per_second)
    several = sizes[sizes_of(name)[0]] * np.array([1, 10, 100, 1000])
    first = {**sizes, sizes_of(name)[0]: several}
    before = look(H100, **first)
    assert (look(wider, **first) <= before).all() and (look(denser, **first) <= before).all()
    assert (look(wider, **first) < before).any() or (look(denser, **first) < before).any()


def test_fp16_runs_as_bf16_and_fp32_at_its_own_peak() -> None:
    bf16, fp16, fp32 = (
        kernels.products_seconds(H100, rows=8192, inner=8192, outer=8192, dtype=dtype)
        for dtype in ("bf16", "fp16", "fp32")
    )
    assert fp16 == bf16
    assert fp32 == pytest.approx(bf16 * 989 / 67, rel=1e-9)


def test_a_smaller_cache_is_read_sooner_and_a_window_reads_less() -> None:
    look, sizes = LOOKS["decode"]
    sizes = {**sizes, "sequences": 256, "context_tokens": 8192}
    assert look(H100, **{**sizes, "kv_value_bytes": 1}) < 0.7 * look(H100, **sizes)
    assert look(H100, **sizes, window=1024) < 0.4 * look(H100, **sizes)
    assert look(H100, **sizes, window=200_000) == look(H100, **sizes)
    some = look(H100, **sizes, window=np.array([0, 1024]))
    assert some.tolist() == pytest.approx(
        [look(H100, **sizes), look(H100, **sizes, window=1024)], rel=1e-12
    )


def test_chunks_of_a_prefill_cost_about_the_whole() -> None:
    look, sizes = LOOKS["prefill"]
    sizes = {**sizes, "sequences": 8}
    whole = look(H100, **{**sizes, "tokens": 8192})
    chunks = [look(H100, **{**sizes, "tokens": 2048}, prefix_tokens=2048 * n) for n in range(4)]
    assert sum(chunks) == pytest.approx(whole, rel=0.1)
    assert chunks[3] > 4 * chunks[0]


@pytest.mark.parametrize("name", ROOFED)
@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), -(10**30)])
def test_sizes_that_are_none_are_refused_by_name(name: str, bad: float) -> None:
    look, sizes = LOOKS[name]
    for size in sizes_of(name):
        with pytest.raises(ValueError, match=f"^{size}: "):
            look(H100, **{**sizes, size: bad})
        if size != "kv_value_bytes":
            with pytest.raises(ValueError, match=f"^{size}: "):
                look(H100, **{**sizes, size: np.array([1.0, bad])})


def test_more_experts_a_token_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="^experts_per_token: "):
        kernels.experts_seconds(H100, tokens=8, **{**MIXTURE, "experts_per_token": 129})


def test_huge_sizes_stay_finite() -> None:
    for name in LOOKS:
        look, sizes = LOOKS[name]
        first = sizes_of(name)[0]
        assert 0 < look(H100, **{**sizes, first: 10**15}) < 1e12


def test_what_is_unknown_is_none() -> None:
    assert kernels.tables_of(custom_gpu(80 * 2**30)) is None
    for name in ROOFED:
        look, sizes = LOOKS[name]
        assert look(custom_gpu(80 * 2**30), **sizes) is None
        assert look(gpu("m4-max-128gb"), **sizes) is None
        assert kernels.explain(name, gpu("m4-max-128gb"), **sizes) is None
    fp8 = {**LOOKS["products"][1], "dtype": "fp8"}
    assert kernels.products_seconds(gpu("a100-80gb"), **fp8) is None
    assert kernels.reduce_seconds(gpu("l4"), size_bytes=1e6, ranks=2) is None
    assert kernels.reduce_seconds(H100, size_bytes=1e6, ranks=16) is None
    assert kernels.reduce_seconds(H100, size_bytes=1e6, ranks=1) == 0.0
    with pytest.raises(ValueError, match="dtype"):
        kernels.products_seconds(H100, **{**LOOKS["products"][1], "dtype": "int4"})


@pytest.mark.parametrize(
    ("card", "lender"),
    [
        ("h100-80gb", "h100-80gb"),
        ("h100-80gb-pcie", "h100-80gb"),
        ("h20-96gb", "h200-141gb"),
        ("a100-40gb", "a100-80gb"),
        ("l4", "l40s"),
        ("rtx-4090", "l40s"),
        ("rtx-3090", "a100-80gb"),
        ("rtx-5090", "rtx-pro-6000-blackwell"),
        ("mi300x", "rtx-pro-6000-blackwell"),
    ],
)
def test_who_lends(card: str, lender: str) -> None:
    """The same compute capability first, then the nearest in compute by bandwidth."""
    found = kernels.tables_of(gpu(card))
    assert found is not None
    assert (found.card, found.own) == (lender, card == lender)
    assert "vLLM 0." in found.words and (found.own or lender in found.words)


def test_a_borrower_keeps_its_own_roofline() -> None:
    """L4 has 300 GB/s: its weights take at least that long, and little longer than that."""
    found = kernels.products_seconds(gpu("l4"), rows=8, inner=4096, outer=14336, dtype="bf16")
    least = 2 * 4096 * 14336 / 300e9
    assert least < found < 1.35 * least


def benchmark(**shares: float) -> Speeds:
    keys: dict[str, SpeedKey] = {
        "compute": "forward-compute",
        "training": "training-compute",
        "memory": "decode-bandwidth",
    }
    speeds = tuple(Speed(keys[name], share, share, share) for name, share in shares.items())
    return Speeds(gpu="h100-80gb", torch="2.13.0", driver="", date="2026-11-20", speeds=speeds)


def test_a_cards_own_benchmark_replaces_the_tables() -> None:
    own = H100.with_speeds(benchmark(compute=0.5, training=0.25, memory=0.8))
    large = {"rows": 8192, "inner": 8192, "outer": 8192, "dtype": "bf16"}
    flops = 2 * 8192**3 / 989e12
    assert kernels.products_seconds(own, **large) == pytest.approx(flops / 0.5)
    assert kernels.products_seconds(own, **large, training=True) == pytest.approx(flops / 0.25)
    look, sizes = LOOKS["decode"]
    least = 48 * 8 * 128 * 2 * (2 * 3000 + 2 * 4) / 3.35e12
    assert look(own, **sizes) == pytest.approx(least / 0.8)
    explained = kernels.explain("decode", own, **sizes)
    assert explained is not None
    assert explained.share == pytest.approx(0.8) and "2.13.0" in explained.benchmark


def test_half_a_benchmark_replaces_half() -> None:
    own = H100.with_speeds(benchmark(memory=0.5))
    large = {"rows": 8192, "inner": 8192, "outer": 8192, "dtype": "bf16"}
    assert kernels.products_seconds(own, **large) == kernels.products_seconds(H100, **large)
    thin = {**large, "rows": np.array([1, 8192])}
    mixed = kernels.products_seconds(own, **thin)
    assert mixed[0] == pytest.approx(2 * (8192 * 8193 + 8192) / 3.35e12 / 0.5)
    assert mixed[1] == pytest.approx(kernels.products_seconds(H100, **large), rel=1e-12)


def test_a_card_measured_at_one_head_size_answers_for_several() -> None:
    look, sizes = LOOKS["decode"]
    card = gpu("a100-80gb")
    several = look(card, **{**sizes, "head_dim": np.array([64, 128])})
    assert several.tolist() == pytest.approx(
        [look(card, **{**sizes, "head_dim": dim}) for dim in (64, 128)], rel=1e-12
    )


def test_the_roofline_of_experts_counts_those_that_tokens_meet() -> None:
    """Three products of 2,048 x 768; one token meets 8 of 128 experts, and 50,000 meet all."""
    one = kernels.explain("experts", H100, tokens=1, **MIXTURE)
    many = kernels.explain("experts", H100, tokens=50_000, **MIXTURE)
    assert one is not None and many is not None
    rows = 9 * (2048 + 768) * 2
    assert one.roofline_seconds == pytest.approx((8 * 3 * 2048 * 768 * 2 + rows) / 3.35e12)
    assert many.roofline_seconds == pytest.approx(2 * 50_000 * 8 * 3 * 2048 * 768 / 989e12)


def test_experts_next_to_a_measured_shape_take_about_as_long() -> None:
    look, sizes = LOOKS["experts"]
    for tokens in (8, 512, 8192):
        there = look(H100, **{**sizes, "tokens": tokens})
        beside = look(H100, **{**sizes, "tokens": tokens, "expert_intermediate": 772})
        assert beside == pytest.approx(there, rel=0.02)
