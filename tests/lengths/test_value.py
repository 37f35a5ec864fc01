"""Lengths as a value: what follows from bins, alone and over a sweep's mesh."""

from __future__ import annotations

import random
from bisect import bisect
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.lengths import Lengths
from planner.lengths.shape import Lognormal, grouped, histogram, lognormal, uniform
from planner.lengths.text import to_text
from planner.lengths.value import MOST_BINS, point
from planner.plan.lengths import lengths_of

COUNTS = st.dictionaries(st.integers(1, 40_000), st.integers(1, 10_000), min_size=1, max_size=64)
SHAPES = st.one_of(
    COUNTS.map(histogram),
    st.builds(lognormal, st.integers(20, 20_000), st.integers(1, 2_000)),
    st.tuples(st.integers(1, 900), st.integers(0, 9000)).map(lambda of: uniform(of[0], sum(of))),
)
CAPS = st.integers(1, 50_000)


def of(shape: Any, cap: Any) -> Lengths:
    text = shape if isinstance(shape, str) else to_text(shape)
    return lengths_of(SimpleNamespace(length_distribution=text, response_tokens=cap))


def drawn(lengths: Lengths, rng: random.Random) -> int:
    """One response's length, drawn by its share."""
    shares = list(accumulate(float(one.share) for one in lengths.bins))
    place = bisect(shares, rng.random() * shares[-1])
    return int(lengths.bins[min(place, len(shares) - 1)].tokens)


def test_a_plan_without_a_distribution_has_every_response_at_its_cap() -> None:
    lengths = of("", 2048)
    assert lengths.bins == ((2048, 1.0),)
    assert (lengths.mean, lengths.longest, lengths.attended) == (2048, 2048, 2048)
    assert all(type(one) is int for one in (lengths.mean, lengths.longest_of(9), lengths.attended))
    assert lengths.survival == ((0, 2048, 1.0),)
    assert lengths.most_of(7, 3) == 7 * 2048


def test_a_histogram_by_hand() -> None:
    """One in four at 100, the rest at 20, cut at 60."""
    whole, cut = of("1~hist_20~3_100~1", 1000), of("1~hist_20~3_100~1", 60)
    assert whole.mean == 40 and whole.longest == 100
    assert cut.mean == 30 and cut.longest == 60
    assert cut.survival == ((0, 20, 1.0), (20, 60, 0.25))
    assert cut.attended == pytest.approx((0.75 * 400 + 0.25 * 3600) / 30)
    assert cut.longest_of(2) == pytest.approx(20 * 0.75**2 + 60 * (1 - 0.75**2))
    assert cut.reaching(60) == 0.25 and cut.reaching(61) == 0
    assert cut.after(10).mean == 40 and cut.after(10).bins[0].tokens == 30


@given(SHAPES, CAPS)
def test_survival_integrates_to_the_mean(shape: Any, cap: int) -> None:
    lengths = of(shape, cap)
    alive = sum((end - start) * share for start, end, share in lengths.survival)
    assert alive == pytest.approx(lengths.mean)
    shares = [share for _, _, share in lengths.survival]
    assert shares[0] == 1.0 and shares == sorted(shares, reverse=True)
    assert sum(one.share for one in lengths.bins) == pytest.approx(1.0)
    assert 1 <= len(lengths.bins) <= MOST_BINS
    assert lengths.bins[-1].tokens <= lengths.longest <= cap


@given(SHAPES, CAPS, st.integers(1, 5000))
def test_the_longest_of_more_is_longer_and_of_one_is_the_mean(
    shape: Any, cap: int, count: int
) -> None:
    lengths = of(shape, cap)
    assert lengths.longest_of(1) == pytest.approx(lengths.mean)
    one, two = lengths.longest_of(count), lengths.longest_of(2 * count)
    assert one <= two * (1 + 1e-9) and two <= lengths.longest * (1 + 1e-9)


@given(SHAPES, CAPS, st.integers(1, 20_000))
def test_a_lower_cap_is_never_longer(shape: Any, cap: int, more: int) -> None:
    short, long = of(shape, cap), of(shape, cap + more)
    for count in (1, 8, 512):
        assert short.longest_of(count) <= long.longest_of(count) * (1 + 1e-9)
    assert short.longest <= long.longest


@given(COUNTS, st.integers(1, 30_000), CAPS)
def test_a_shorter_tail_is_never_longer(counts: dict[int, int], tokens: int, cap: int) -> None:
    """The longest response replaced by a shorter one."""
    longest = max(counts)
    shorter = {**counts}
    moved, to = shorter.pop(longest), min(tokens, longest)
    shorter[to] = shorter.get(to, 0) + moved
    one, other = of(histogram(shorter), cap), of(histogram(counts), cap)
    for count in (1, 4, 100):
        assert one.longest_of(count) <= other.longest_of(count) * (1 + 1e-9)
    assert one.longest <= other.longest


@settings(max_examples=30)
@given(SHAPES, st.lists(CAPS, min_size=1, max_size=4), st.lists(st.integers(1, 300), min_size=1))
def test_a_mesh_has_the_numbers_of_each_of_its_plans(
    shape: Any, caps: list[int], counts: list[int]
) -> None:
    lengths = of(shape, np.array(caps).reshape(-1, 1))
    sizes = np.array(counts).reshape(1, -1)
    found = {
        "mean": np.broadcast_to(lengths.mean, (len(caps), len(counts))),
        "longest": np.broadcast_to(lengths.longest, (len(caps), len(counts))),
        "attended": np.broadcast_to(lengths.attended, (len(caps), len(counts))),
        "longest_of": np.broadcast_to(lengths.longest_of(sizes), (len(caps), len(counts))),
        "most_of": np.broadcast_to(lengths.most_of(sizes, sizes), (len(caps), len(counts))),
    }
    for row, cap in enumerate(caps):
        alone = of(shape, cap)
        for column, count in enumerate(counts):
            own = {
                "mean": alone.mean,
                "longest": alone.longest,
                "attended": alone.attended,
                "longest_of": alone.longest_of(count),
                "most_of": alone.most_of(count, count),
            }
            for name, value in own.items():
                assert found[name][row, column] == pytest.approx(value), name


def test_the_longest_of_a_batch_is_what_drawing_gives() -> None:
    rng, lengths = random.Random(3), of("1~lognormal_900~800", 4096)
    for count in (1, 8, 64):
        drawn_longest = [max(drawn(lengths, rng) for _ in range(count)) for _ in range(600)]
        assert np.mean(drawn_longest) == pytest.approx(lengths.longest_of(count), rel=0.06)


def test_the_gpu_with_the_most_is_what_drawing_gives() -> None:
    rng, lengths = random.Random(5), of("1~lognormal_900~800", 4096)
    most = [
        max(sum(drawn(lengths, rng) for _ in range(32)) for _ in range(8)) for _ in range(200)
    ]
    assert lengths.most_of(32, 8) == pytest.approx(np.mean(most), rel=0.03)
    assert lengths.most_of(32, 1) == pytest.approx(32 * lengths.mean)
    assert of("1~hist_1~1_100~1", 100).most_of(1, 4096) == 100


@pytest.mark.parametrize(("mean", "spread"), [(800, 700), (14_000, 9_000), (60, 10)])
@pytest.mark.parametrize("times", [0.8, 1.5, 4.0])
def test_a_lognormals_bins_cut_as_the_curve_itself_does(
    mean: int, spread: int, times: float
) -> None:
    """Against a sum over the density in 100,000 steps."""
    width = np.sqrt(np.log(1 + (spread / mean) ** 2))
    cap = round(mean * times)
    grid = np.linspace(-9, 9, 100_001)
    density = np.exp(-(grid**2) / 2)
    density /= density.sum()
    cut = np.minimum(np.exp(np.log(mean) - width**2 / 2 + width * grid), cap)
    lengths = of(Lognormal(mean, spread), cap)
    assert lengths.mean == pytest.approx((cut * density).sum(), rel=0.003)
    # Of 4,096 the shares above the last quantiles matter: the tail is told in halves.
    below = np.cumsum(density)
    expected = (np.diff(below**4096, prepend=0) * cut).sum()
    assert lengths.longest_of(4096) == pytest.approx(expected, rel=0.03)
    assert lengths.longest == cap


def test_uniform_lengths_have_their_mean_and_their_longest() -> None:
    lengths = of(uniform(10, 4000), 8000)
    assert lengths.mean == pytest.approx(2005, abs=1)
    assert lengths.longest == 4000 and lengths.bins[-1].tokens == 4000


@given(st.dictionaries(st.integers(1, 40_000), st.integers(1, 50), min_size=65, max_size=400))
def test_many_lengths_are_grouped_without_losing_mean_or_longest(counts: dict[int, int]) -> None:
    shape = grouped(counts)
    lengths, whole = of(shape, 50_000), sum(counts.values())
    assert len(shape.counts) <= MOST_BINS
    assert lengths.longest == max(counts)
    exact = sum(tokens * count for tokens, count in counts.items()) / whole
    assert lengths.mean == pytest.approx(exact, abs=0.51)


def test_a_point_is_a_point_in_a_mesh_too() -> None:
    caps = np.array([[3], [5]])
    assert point(caps).longest_of(np.array([[1, 2]])).tolist() == [[3], [5]]
