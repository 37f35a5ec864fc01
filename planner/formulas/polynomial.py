"""Bytes as a polynomial in the rows and the tokens of a row, solved exactly from six sizes.

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

Parabola = tuple[Fraction, Fraction, Fraction]
"""Factors of 1, tokens and tokens²."""


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
    lengths: Sequence[int], two_rows: Sequence[int], three_rows: Sequence[int]
) -> Polynomial:
    """The polynomial with these values at two and at three rows of each of three lengths.

    Args:
        lengths: three different lengths, in tokens.
        two_rows: values of two rows of each length.
        three_rows: values of three rows of each length.
    """
    pairs = list(zip(two_rows, three_rows, strict=True))
    by_row = _parabola(lengths, [three - two for two, three in pairs])
    rest = _parabola(lengths, [3 * two - 2 * three for two, three in pairs])
    return _ordered(by_row, rest)


def through_chunks(
    lengths: Sequence[int], less: int, two_rows: Sequence[int], three_rows: Sequence[int]
) -> Polynomial:
    """The same where layers pad rows to whole chunks: of tokens, then of padded tokens.

    Args:
        lengths: three different lengths of whole chunks, in tokens.
        less: tokens that the same numbers of chunks were measured with, too, fewer than that.
        two_rows: values of two rows of each length, then of each length less those tokens.
        three_rows: values of three rows of the same.
    """
    pairs = list(zip(two_rows, three_rows, strict=True))
    by_row = _apart(lengths, less, [three - two for two, three in pairs])
    rest = _apart(lengths, less, [3 * two - 2 * three for two, three in pairs])
    return _ordered(by_row[0], rest[0]) + _ordered(by_row[1], rest[1])


def _apart(lengths: Sequence[int], less: int, values: Sequence[int]) -> tuple[Parabola, Parabola]:
    """What grows with the tokens, and what with the chunks and stays: parabolas of one sum."""
    whole, shorter = values[: len(lengths)], values[len(lengths) :]
    grown = [(a - b) / Fraction(less) for a, b in zip(whole, shorter, strict=True)]
    first, last = lengths[0], lengths[-1]
    square = (grown[-1] - grown[0]) / (2 * (last - first))
    linear = grown[0] - square * (2 * first - less)
    left = [
        each - linear * length - square * length * length
        for each, length in zip(whole, lengths, strict=True)
    ]
    return (Fraction(0), linear, square), _parabola(lengths, left)


def through_window(
    lengths: Sequence[int], two_rows: Sequence[int], three_rows: Sequence[int]
) -> Polynomial:
    """The same where no token sees more than a window: of tokens, then of those in the window.

    Args:
        lengths: three different lengths beyond the window, then three up to it.
        two_rows: values of two rows of each length.
        three_rows: values of three rows of each length.
    """
    pairs = list(zip(two_rows, three_rows, strict=True))
    by_row = _bent(lengths, [three - two for two, three in pairs])
    rest = _bent(lengths, [3 * two - 2 * three for two, three in pairs])
    return _ordered(by_row[0], rest[0]) + _ordered(by_row[1], rest[1])


def _bent(lengths: Sequence[int], values: Sequence[int]) -> tuple[Parabola, Parabola]:
    """What grows beyond the window, too, and what only up to it: parabolas of one sum."""
    _, linear, square = _parabola(lengths[:3], values[:3])
    rest = [v - linear * t - square * t * t for v, t in zip(values[3:], lengths[3:], strict=True)]
    return (Fraction(0), linear, square), _parabola(lengths[3:], rest)


def _ordered(by_row: Parabola, rest: Parabola) -> Polynomial:
    exact = (by_row[1], by_row[2], rest[2], by_row[0], rest[1], rest[0])
    return tuple(_number(factor) for factor in exact)


def _number(exact: Fraction) -> int | float:
    return int(exact) if exact.denominator == 1 else float(exact)


def _parabola(places: Sequence[int], values: Sequence[int | Fraction]) -> Parabola:
    """Factors of 1, t and t² through three points."""
    (a, b, c), (at_a, at_b, at_c) = places, values
    first = Fraction(at_b - at_a) / (b - a)
    second = (Fraction(at_c - at_b) / (c - b) - first) / (c - a)
    linear = first - second * (a + b)
    return at_a - linear * a - second * a * a, linear, second
