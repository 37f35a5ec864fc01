"""Polynomials in rows and tokens: exact through six sizes, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner.formulas.polynomial import of_rank, padded, through, through_ranks, value

LENGTHS = (2, 3, 5)


def test_a_polynomial_is_found_again_from_six_of_its_values() -> None:
    def by_hand(rows: int, tokens: int) -> int:
        return 7 * rows * tokens + 3 * rows * tokens**2 + 2 * tokens**2 + 11 * rows + 5 * tokens + 1

    two, three = ([by_hand(rows, tokens) for tokens in LENGTHS] for rows in (2, 3))
    assert through(LENGTHS, (), two, three) == (7, 3, 2, 11, 5, 1)


def test_what_rows_of_whole_chunks_need_is_told_apart() -> None:
    """Chunks of 4 tokens; each number is by hand, and the constant goes with the chunks."""
    lengths = (4, 8, 16, 3, 15)

    def by_hand(rows: int, tokens: int) -> int:
        full = (tokens + 3) // 4 * 4
        return 7 * rows * tokens + 2 * tokens**2 + 5 * rows * full + 3 * full**2 + 11 * rows + 1

    two, three = ([by_hand(rows, tokens) for tokens in lengths] for rows in (2, 3))
    found = through(lengths, [padded(tokens, 4) for tokens in lengths], two, three)
    assert found == (7, 0, 2, 0, 0, 0, 5, 0, 3, 11, 0, 1)
    for rows, tokens in ((1, 1), (5, 6), (2, 9), (3, 16)):
        assert value(found, rows, tokens, padded(tokens, 4)) == by_hand(rows, tokens)
    several = np.array([1, 6, 9])
    expected = [by_hand(2, int(each)) for each in several]
    assert list(value(found, 2, several, padded(several, 4))) == expected


def test_what_each_rank_of_adapters_adds_is_told_apart() -> None:
    none, each = (7, 3, 2, 11, 5, 1), (2, 0, 0, 4, 0, 6)
    low, high = (tuple(a + r * b for a, b in zip(none, each, strict=True)) for r in (8, 16))
    found = through_ranks((8, 16), low, high)
    assert found == none + each
    assert of_rank(found, 3) == (7 + 6, 3, 2, 11 + 12, 5, 1 + 18)


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ((1, 0, 0, 0, 0, 0), 4 * 10),
        ((0, 1, 0, 0, 0, 0), 4 * 100),
        ((0, 0, 1, 0, 0, 0), 100),
        ((0, 0, 0, 1, 0, 0), 4),
        ((0, 0, 0, 0, 1, 0), 10),
        ((0, 0, 0, 0, 0, 1), 1),
    ],
)
def test_each_factor_is_that_of_its_product(factors: tuple[int, ...], expected: int) -> None:
    assert value(factors, 4, 10) == expected
    assert list(value(factors, np.array([4, 4]), np.array([10, 10]))) == [expected] * 2
