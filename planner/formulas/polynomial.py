"""Bytes as a polynomial in the rows and the tokens of a row, solved exactly from some sizes.

Every storage of a forward or backward has a size of the form ``rows**a * tokens**b`` with
``a`` of 0 or 1 and ``b`` of 0, 1 or 2, times what the model's config says; so do sums of them.
Imports :mod:`planner.numeric` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from planner.numeric import Num

Polynomial = tuple[int | float, ...]
"""Factors of rows·tokens, rows·tokens², tokens², rows, tokens and 1, in this order; where a layer
has another length beside its tokens (:mod:`planner.formulas.length_law`), then the same of that."""
FACTORS = 6

def padded(tokens: Num, chunk: int) -> Num:
    """Tokens of a row that is filled up to whole chunks."""
    return -(-tokens // chunk) * chunk


def of_rank(polynomial: Polynomial, rank: Num) -> tuple[Num, ...]:
    """The polynomial at a rank of adapters, of one whose later half is what each rank adds."""
    half = len(polynomial) // 2
    return tuple(a + rank * b for a, b in zip(polynomial[:half], polynomial[half:], strict=True))


def through_ranks(ranks: tuple[int, int], low: Polynomial, high: Polynomial) -> Polynomial:
    """A polynomial that is linear in the rank of adapters, through its values at two ranks."""
    low_rank, high_rank = ranks
    pairs = [(Fraction(a), Fraction(b)) for a, b in zip(low, high, strict=True)]
    each = [(b - a) / (high_rank - low_rank) for a, b in pairs]
    none = [a - low_rank * slope for (a, _), slope in zip(pairs, each, strict=True)]
    return tuple(_number(factor) for factor in (*none, *each))


def value(polynomial: Polynomial, rows: Num, tokens: Num, second: Num = 0) -> Num:
    """Its value, in bytes where it is one of bytes; ``second`` is its other length, if any."""
    if len(polynomial) > FACTORS:
        within = value(polynomial[FACTORS:], rows, second)
        return value(polynomial[:FACTORS], rows, tokens) + within
    product, square, plain, by_row, by_token, constant = polynomial
    inside = product * tokens + square * tokens * tokens + by_row
    return rows * inside + plain * tokens * tokens + by_token * tokens + constant


def through(
    lengths: Sequence[int],
    seconds: Sequence[int],
    two_rows: Sequence[int],
    three_rows: Sequence[int],
) -> Polynomial:
    """The polynomial with these values at two and at three rows of each length.

    Args:
        lengths: three different lengths, in tokens; five where there is another length, too.
        seconds: the other length at each; empty where there is none. With three lengths all is
            of the other one.
        two_rows: values of two rows of each length.
        three_rows: values of three rows of each length.
    """
    pairs = list(zip(two_rows, three_rows, strict=True))
    own = seconds or lengths
    table = [(1, b, b * b, a, a * a)[: len(lengths)] for a, b in zip(lengths, own, strict=True)]
    by_row = _solved(table, [three - two for two, three in pairs])
    rest = _solved(table, [3 * two - 2 * three for two, three in pairs])
    last = _ordered(by_row[:3], rest[:3])
    none = [Fraction(0)]
    first = _ordered(none + by_row[3:] + 2 * none, none + rest[3:] + 2 * none)
    return (*first, *last) if seconds else last


def _ordered(by_row: Sequence[Fraction], rest: Sequence[Fraction]) -> Polynomial:
    exact = (by_row[1], by_row[2], rest[2], by_row[0], rest[1], rest[0])
    return tuple(_number(factor) for factor in exact)


def _number(exact: Fraction) -> int | float:
    return int(exact) if exact.denominator == 1 else float(exact)


def _solved(table: Sequence[Sequence[int]], values: Sequence[int]) -> list[Fraction]:
    """What a row of the table has to be multiplied with for its value: Gauss and Jordan's way."""
    left = [[*map(Fraction, (*row, value))] for row, value in zip(table, values, strict=True)]
    for at in range(len(left)):
        pivot = next(row for row in left[at:] if row[at])
        left.remove(pivot)
        pivot = [each / pivot[at] for each in pivot]
        left = [[a - row[at] * b for a, b in zip(row, pivot, strict=True)] for row in left]
        left.insert(at, pivot)
    return [row[-1] for row in left]
