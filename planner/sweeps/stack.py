"""Combinations of one kind side by side: one more axis before those of their mesh.

Combinations have few different phases and bundles between them. Each is put into a table once, and
what the combinations have is taken from it by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from planner.numeric import Num
from planner.sweeps.combinations import Bundles, Combination
from planner.totals.peaks import NOTHING_STOOD, Peak, of_both, standing_on

Array = np.ndarray[Any, Any]
Rows = Sequence[tuple[object, Sequence[Num]]]
"""Numbers, some of them arrays of a mesh, by the object that has them."""


def taken(rows: Rows, axes: int) -> Callable[[slice], Sequence[Num]]:
    """What gives some of the rows field by field, with the axis of combinations first.

    The rows of one object are put into a table once; a mesh has so many axes.
    """
    each = {id(owner): row for owner, row in rows}
    if len(each) == 1:
        alone = [_first(value) for value in rows[0][1]]
        return lambda of: alone
    places = {owner: place for place, owner in enumerate(each)}
    which = np.array([places[id(owner)] for owner, _ in rows])
    fields = [side_by_side(column, axes) for column in zip(*each.values(), strict=True)]
    return lambda of: [values[which[of]] for values in fields]


def _first(value: Num) -> Num:
    return value[None] if isinstance(value, np.ndarray) else value


def side_by_side(values: Sequence[Num], axes: int) -> Array:
    """Numbers, or arrays of a mesh with so many axes, as one array with an axis more."""
    shapes = {value.shape for value in values if isinstance(value, np.ndarray)}
    if not shapes:
        return np.asarray(values).reshape(-1, *(1,) * axes)
    kinds = {value.dtype for value in values if isinstance(value, np.ndarray)}
    plain = {type(value) for value in values if not isinstance(value, np.ndarray)}
    kind = np.result_type(*kinds, *(np.float64 if one is float else np.int8 for one in plain))
    shape = np.broadcast_shapes((1,) * axes, *shapes)
    found: Array = np.empty((len(values), *shape), dtype=kind)
    for number, value in enumerate(values):
        found[number] = value
    return found


class Pair:
    """Of one phase of all combinations: instants that stand on the same, and what that is."""

    def __init__(self, pairs: Sequence[tuple[Peak, Bundles]], axes: int) -> None:
        self._peaks = taken([(peak, peak) for peak, _ in pairs], axes)
        most = max(len(bundles) for _, bundles in pairs)
        # Bundles by their place: those of one place are made alike, and often one number each.
        padded = [(*bundles, *(NOTHING_STOOD,) * (most - len(bundles))) for _, bundles in pairs]
        self._stood = [
            taken([(one, one) for one in place], axes) for place in zip(*padded, strict=True)
        ]

    def peak(self, of: slice) -> Peak:
        """The peak of some of the combinations."""
        found = Peak(*self._peaks(of))
        for stood in self._stood:
            found = standing_on(found, stood(of))
        return found


class Stack:
    """Combinations of one kind."""

    def __init__(self, combinations: Sequence[Combination], axes: int) -> None:
        self.combinations, self._axes = combinations, axes
        self._pairs = [
            [
                Pair([one.slots[slot].pairs[pair] for one in combinations], axes)
                for pair in range(len(first.pairs))
            ]
            for slot, first in enumerate(combinations[0].slots)
        ]

    def peaks(self, of: slice) -> list[Peak]:
        """The peak of each phase of some of the combinations."""
        found = []
        for pairs in self._pairs:
            first, *rest = (pair.peak(of) for pair in pairs)
            for other in rest:
                first = of_both(first, other)
            found.append(first)
        return found

    def figure(self, name: str, of: slice) -> Num:
        """A figure of some of the combinations."""
        values = [one.figures[name] for one in self.combinations[of]]
        return _first(values[0]) if len(values) == 1 else side_by_side(values, self._axes)
