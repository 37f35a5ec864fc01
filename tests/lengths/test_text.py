"""One text a distribution, whoever wrote it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.lengths.shape import histogram, lognormal, uniform
from planner.lengths.text import MAX_CHARACTERS, canonical, from_text, to_text


@given(
    st.dictionaries(st.integers(1, 4_000_000), st.integers(1, 10**9), min_size=1, max_size=64),
    st.integers(1, 1000),
    st.randoms(),
)
def test_equal_histograms_have_one_text(counts: dict[int, int], times: int, rng: object) -> None:
    text = to_text(histogram(counts))
    pairs = [f"{tokens}~{count * times}" for tokens, count in counts.items()]
    rng.shuffle(pairs)  # type: ignore[attr-defined]
    assert canonical("_".join(("1~hist", *pairs))) == text
    assert canonical(text) == text and len(text) <= MAX_CHARACTERS
    assert from_text(text) == histogram(counts)


@pytest.mark.parametrize("shape", [lognormal(800, 700), uniform(5, 3000)])
def test_a_family_comes_back(shape: object) -> None:
    assert from_text(to_text(shape)) == shape  # type: ignore[arg-type]


def test_one_distribution_said_in_two_ways_has_one_text() -> None:
    assert canonical("1~hist_9~2_9~4") == "1~hist_9~1"
    assert canonical("1~uniform_7~7") == "1~hist_7~1"
    assert canonical("1~uniform_7~8") == canonical("1~hist_8~5_7~5")
    assert canonical("") == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lognormal", "does not begin with"),
        ("2~hist_1~1", "does not begin with"),
        ("1~hist", "0 lengths"),
        ("1~gamma_5~5", "as the shape"),
        ("1~hist_5", "1 numbers in a bin"),
        ("1~hist_5~1~2", "3 numbers in a bin"),
        ("1~hist_0~1", "as a number"),
        ("1~hist_05~1", "as a number"),
        ("1~hist_-5~1", "as a number"),
        ("1~hist_1e3~1", "as a number"),
        ("1~hist_5~nan", "as a number"),
        ("1~hist_\u0665~1", "as a number"),
        ("1~hist_5~1\n", "as a number"),
        ("1~hist_<b>~1", "as a number"),
        ("1~hist_9000000~1", "9,000,000 tokens"),
        ("1~hist_5~9000000000000", "9,000,000,000,000 responses"),
        ("1~hist" + "".join(f"_{at}~1" for at in range(1, 66)), "more than 64 bins"),
        ("1~hist_" + "1" * MAX_CHARACTERS, "more than"),
        ("1~lognormal_5~5_5~5", "2 pairs"),
        ("1~lognormal", "0 pairs"),
        ("1~lognormal_5~501", "spread of 501"),
        ("1~uniform_9~5", "from 9 to 5"),
    ],
)
def test_a_strangers_text_is_refused_in_words(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        canonical(text)
    assert str(caught.value).isprintable()


@given(st.text(max_size=60))
def test_nothing_but_value_errors_come_of_any_text(text: str) -> None:
    for begun in (text, f"1~hist_{text}", f"1~lognormal_{text}"):
        with suppress(ValueError):
            assert canonical(canonical(begun)) == canonical(begun)
