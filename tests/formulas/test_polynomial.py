"""Polynomials in rows and tokens: exact through six sizes, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner.formulas.polynomial import through, value

LENGTHS = (2, 3, 5)


def test_a_polynomial_is_found_again_from_six_of_its_values() -> None:
    def by_hand(rows: int, tokens: int) -> int:
        return 7 * rows * tokens + 3 * rows * tokens**2 + 2 * tokens**2 + 11 * rows + 5 * tokens + 1

    two, three = ([by_hand(rows, tokens) for tokens in LENGTHS] for rows in (2, 3))
    assert through(LENGTHS, two, three) == (7, 3, 2, 11, 5, 1)


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
