"""Combinations of one kind side by side: one more axis before those of their mesh.

Combinations have few different phases and bundles between them. Each is put into a table once, and
what the combinations have is taken from it by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.numeric import Num
from planner.sweeps.combinations import Bundles, Combination
from planner.totals.levels import NOTHING
from planner.totals.peaks import Peak, Stood, of_both, standing_on

Array = np.ndarray[Any, Any]
EMPTY = Stood(NOTHING, 0, 0, 0)


class Table:
    """Rows of numbers, some of them arrays of a mesh with so many axes, each once."""

    def __init__(self, axes: int) -> None:
        self._axes = axes
        self._numbers: dict[int, int] = {}
        self._rows: list[tuple[Any, Sequence[Num]]] = []

    def number(self, owner: object, row: Sequence[Num]) -> int:
        """The number of a row, by the object that has it."""
        number = self._numbers.get(id(owner))
        if number is None:
            number = self._numbers[id(owner)] = len(self._rows)
            self._rows.append((owner, row))
        return number

    def take(self, numbers: Array) -> list[Num]:
        """Rows by number, field by field, with the axis of combinations first."""
        if len(self._rows) == 1:
            return [_first(value) for value in self._rows[0][1]]
        return [values[numbers] for values in self._fields]

    def close(self) -> None:
        """Puts the rows together; none can be added afterwards."""
        if len(self._rows) > 1:
            columns = zip(*(row for _, row in self._rows), strict=True)
            self._fields = [side_by_side(column, self._axes) for column in columns]


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
        self._peaks = _taken([(peak, peak) for peak, _ in pairs], axes)
        most = max(len(bundles) for _, bundles in pairs)
        # Bundles by their place: those of one place are made alike, and often one number each.
        self._stood = [
            _taken(
                [
                    (one, (*one.sums, *one[1:]))
                    for _, bundles in pairs
                    for one in (bundles[place] if place < len(bundles) else EMPTY,)
                ],
                axes,
            )
            for place in range(most)
        ]

    def peak(self, of: slice) -> Peak:
        """The peak of some of the combinations."""
        table, which = self._peaks
        found = Peak(*table.take(which[of]))
        for table, which in self._stood:
            *sums, below, above, hosted = table.take(which[of])
            found = standing_on(found, Stood(type(NOTHING)(*sums), below, above, hosted))
        return found


def _taken(rows: Sequence[tuple[object, Sequence[Num]]], axes: int) -> tuple[Table, Array]:
    """Rows by the object that has them, as a table and each one's number."""
    table = Table(axes)
    which = np.array([table.number(owner, row) for owner, row in rows])
    table.close()
    return table, which


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
