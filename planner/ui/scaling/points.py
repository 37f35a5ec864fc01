"""Which of an axis' plans are drawn: even places, and more where something bends.

A sweep of every value of an axis is cheap, so nothing is guessed between two points: the table
holds them all, and what is drawn is taken from it. Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

EVEN = 60
"""Places at equal distances on the axis, which is logarithmic; fewer where fewer plans are."""
BEND = 0.001
"""Of a curve's height, by how much a line between two points may miss a plan between them."""
ROUNDS = 6
WORDS = ("worst_phase", "verdict")
"""Columns whose change is drawn from both of its sides."""


def drawn(table: pd.DataFrame, field: str, curves: Sequence[str]) -> list[int]:
    """The values of ``field`` that are drawn, of a table in their order with possible plans alone.

    All where they are few. Else even places, both sides of each change of the worst phase or the
    verdict, and wherever a straight line would miss one of the ``curves`` (columns).
    """
    values = table[field].to_numpy(dtype=np.int64)
    if len(values) <= 2 * EVEN:
        return [int(value) for value in values]
    places = np.log2(values)
    picked = {0, len(values) - 1, *_evenly(places), *_changes(table)}
    heights = [_height(table[name]) for name in curves]
    for _ in range(ROUNDS):
        known = np.asarray(sorted(picked))
        more = set[int]().union(*(_missed(places, height, known) for height in heights))
        if more <= picked:
            break
        picked |= more
    return [int(values[place]) for place in sorted(picked)]


def _evenly(places: np.ndarray[Any, Any]) -> set[int]:
    """The values nearest above even places, so narrow that they are ``EVEN`` different ones."""
    found: set[int] = set()
    count = EVEN
    while len(found) < EVEN:
        even = np.searchsorted(places, np.linspace(places[0], places[-1], count))
        found, count = {*even.clip(0, len(places) - 1).tolist()}, 2 * count
    return found


def _changes(table: pd.DataFrame) -> set[int]:
    """Both sides of every change of a word."""
    sides: set[int] = set()
    for name in WORDS:
        codes = pd.factorize(table[name])[0]
        before = np.flatnonzero(codes[1:] != codes[:-1])
        sides |= {*before.tolist(), *(before + 1).tolist()}
    return sides


def _height(column: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """A curve as a share of its largest value; what is not known is at the bottom."""
    sizes: np.ndarray[Any, Any] = np.nan_to_num(column.to_numpy(dtype=float, na_value=np.nan))
    shares: np.ndarray[Any, Any] = sizes / (sizes.max() or 1.0)
    return shares


def _missed(
    places: np.ndarray[Any, Any], height: np.ndarray[Any, Any], known: np.ndarray[Any, Any]
) -> set[int]:
    """Between each two known points, the one that lies farthest from the line between them."""
    off = np.abs(height - np.interp(places, places[known], height[known]))
    if off.max() <= BEND:
        return set()
    starts = known[:-1]
    most = np.maximum.reduceat(off[: known[-1]], starts)
    between = np.searchsorted(known, np.flatnonzero(off > BEND), side="right") - 1
    return {
        int(starts[part] + off[starts[part] : known[part + 1]].argmax())
        for part in np.unique(between)
        if most[part] > BEND
    }
