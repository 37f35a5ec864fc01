"""Arithmetic that works on one plan (``int``) and on a whole sweep (``int64`` array) alike.

Everything in ``planner.formulas`` is written with these few operations and the
ordinary operators, so that a sweep runs through the very formulas that a single
plan runs through. May import numpy and nothing else of ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy import ndarray

Num: TypeAlias = Any
"""An ``int`` (or ``float``) for one plan; an integer (or float) array for a sweep."""


class Bounded(NamedTuple):
    """A number that nobody can know exactly, between the least and the most that it can be."""

    low: Num
    centre: Num
    high: Num


Maker = TypeVar("Maker", bound=Callable[..., Any])


def remembered(make: Maker) -> Maker:
    """``make``, which keeps what it made of plain numbers; of a sweep's arrays it makes it anew."""
    known = lru_cache(maxsize=1024, typed=True)(make)

    @wraps(make)
    def look_up(*args: Any, **kwargs: Any) -> Any:
        try:
            return known(*args, **kwargs)
        except TypeError:  # arrays have no hash
            return make(*args, **kwargs)

    return cast("Maker", look_up)


def ceil_div(numerator: Num, denominator: Num) -> Num:
    """Smallest integer not below ``numerator / denominator``."""
    return -(-numerator // denominator)


def round_up(value: Num, multiple: Num) -> Num:
    """Smallest multiple of ``multiple`` not below ``value``."""
    return ceil_div(value, multiple) * multiple


def whole_bytes(value: Num) -> Num:
    """A positive number of bytes without its fraction."""
    return value.astype(np.int64) if isinstance(value, np.ndarray) else int(value)


def power_of_two(value: Num) -> Num:
    """Smallest power of two not below ``value``, which is one at least."""
    if not isinstance(value, np.ndarray):
        return 1 << max(math.ceil(value) - 1, 0).bit_length()
    return np.exp2(np.ceil(np.log2(np.maximum(value, 1)))).astype(np.int64)


def maximum(first: Num, *others: Num) -> Num:
    """Largest of the arguments, element by element for arrays."""
    most = first
    for other in others:
        if type(most) is ndarray or type(other) is ndarray:
            most = np.maximum(most, other)
        elif other > most:
            most = other
    return most


def minimum(first: Num, *others: Num) -> Num:
    """Smallest of the arguments, element by element for arrays."""
    least = first
    for other in others:
        if type(least) is ndarray or type(other) is ndarray:
            least = np.minimum(least, other)
        elif other < least:
            least = other
    return least


def some(value: Num) -> bool:
    """Whether a number is not zero, or any of an array."""
    return bool(value.any() if type(value) is ndarray else value)


def where(condition: Num, then: Num, otherwise: Num) -> Num:
    """``then`` where the condition holds, else ``otherwise``."""
    if isinstance(condition, (bool, np.bool_)):
        return then if condition else otherwise
    return np.where(condition, then, otherwise)


def number_of_most(keys: Sequence[Sequence[Num]]) -> Num:
    """Index of the largest key, the first one on a tie; element by element for arrays."""
    which: Num = 0
    most = keys[0]
    for number, key in enumerate(keys[1:], 1):
        more: Num = False
        tied: Num = True
        for new, old in zip(key, most, strict=True):
            more, tied = more | (tied & (new > old)), tied & (new == old)
        which = where(more, number, which)
        most = [where(more, new, old) for new, old in zip(key, most, strict=True)]
    return which


def of_each(make: Callable[[int], int], value: Num) -> Num:
    """What is made of an integer that no formula takes; element by element for arrays."""
    if not isinstance(value, np.ndarray):
        return make(int(value))
    different, places = np.unique(value, return_inverse=True)
    return np.array([make(int(one)) for one in different])[places].reshape(value.shape)


def chosen(number: Num, values: Sequence[Num]) -> Num:
    """The value at an index; element by element for an array of indices."""
    return np.choose(number, values) if type(number) is ndarray else values[number]


def total(values: Sequence[Num]) -> Num:
    """Sum, adding arrays of equal shape first so that a mesh is only widened at the end."""
    if np.ndarray not in map(type, values):
        return sum(values)
    scalars: Num = 0
    by_shape: dict[tuple[int, ...], Num] = {}
    for value in values:
        if isinstance(value, np.ndarray):
            known = by_shape.get(value.shape)
            by_shape[value.shape] = value if known is None else known + value
        else:
            scalars = scalars + value
    first, *larger = sorted(by_shape.values(), key=lambda array: array.size)
    return sum(larger, first + scalars if scalars else first)
