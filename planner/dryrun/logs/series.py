"""A whole number that depends on how long a row is, from its values at a few lengths.

Sizes of tensors are products of a few dimensions; each is fixed, follows the length, or is the
length rounded up to what a kernel works in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations_with_replacement

MULTIPLES = (8, 16, 32, 64, 128)
"""What kernels round lengths up to."""

Points = tuple[tuple[int, int], ...]
"""Lengths, each with the value there."""


class NoSeries(Exception):
    """No formula goes through the values, or more than one that differ."""


def through(points: Points, wanted: range) -> Mapping[int, int]:
    """The value at every ``wanted`` length, by the formula that goes through the points.

    Args:
        points: at least four, so that none of the formulas goes through them by chance.
        wanted: consecutive lengths between those of the points.

    Raises:
        NoSeries: when no formula fits, or several that do not agree where they are wanted.
    """
    first = points[0][1]
    if all(value == first for _, value in points):
        # Sizes never fall as rows get longer: what is alike at both ends is alike between them.
        return dict.fromkeys(wanted, first)
    for degree in (1, 2):
        given = points[: degree + 1]
        if all(_lagrange(given, at) == value for at, value in points):
            return _whole({at: _lagrange(given, at) for at in wanted})
    found: list[dict[int, Fraction]] = []
    for each in _products(points, wanted):
        if each not in found:
            found.append(each)
    if len(found) != 1:
        raise NoSeries
    return _whole(found[0])


def _whole(values: Mapping[int, Fraction]) -> dict[int, int]:
    if any(value.denominator != 1 for value in values.values()):
        raise NoSeries
    return {at: int(value) for at, value in values.items()}


def _lagrange(points: Points, at: int) -> Fraction:
    """The polynomial through all the points."""
    total = Fraction(0)
    for x, y in points:
        term = Fraction(y)
        for other, _ in points:
            if other != x:
                term *= Fraction(at - other, x - other)
        total += term
    return total


def _products(points: Points, wanted: range) -> Iterator[dict[int, Fraction]]:
    """Multiples of the length rounded up, alone, squared, or times the length."""
    for first, second in combinations_with_replacement((0, 1, *MULTIPLES), 2):
        if second in (0, 1):
            continue
        ratios = {Fraction(value, _up(at, first) * _up(at, second)) for at, value in points}
        if len(ratios) == 1:
            ratio = ratios.pop()
            yield {at: ratio * _up(at, first) * _up(at, second) for at in wanted}


def _up(length: int, multiple: int) -> int:
    """The length in whole multiples; 1 for no multiple."""
    return -(-length // multiple) * multiple if multiple else 1
