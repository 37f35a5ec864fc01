"""Shares of the roofline on a grid of sizes, read between its points in log space.

Between two measured sizes the logarithm of the share runs straight in the logarithm of the size;
beyond the last one it stays what it was there. Where all sizes but one are numbers the grid becomes
a curve once, and the curve is kept. Imports numpy and nothing of ours but :mod:`planner.numeric`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache

import numpy as np

from planner.numeric import Num

CURVES = 4096
"""Curves kept; a plan needs some dozens."""


class Curve:
    """Logarithm of a share over the logarithm of one size."""

    __slots__ = ("at", "points", "values", "x", "y")

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y
        self.points: list[float] = x.tolist()
        self.values: list[float] = y.tolist()

    def __call__(self, at: Num) -> Num:
        """The share at a size, a number or an array."""
        if isinstance(at, np.ndarray):
            return np.exp(np.interp(np.log(at), self.x, self.y))
        where, points, values = math.log(at), self.points, self.values
        after = bisect_right(points, where)
        if not after or after == len(points):
            return math.exp(values[min(after, len(points) - 1)])
        low, high = points[after - 1], values[after - 1]
        slope = (values[after] - high) / (points[after] - low)
        return math.exp(high + slope * (where - low))


class Grid:
    """Shares by sizes, one axis each; equal only to itself."""

    __slots__ = ("axes", "curve", "logs", "shares")

    def __init__(self, axes: tuple[np.ndarray, ...], shares: np.ndarray) -> None:
        """``axes``: sizes, rising. ``shares``: their logarithms, NaN where nothing is known."""
        self.axes = axes
        self.logs = tuple(np.log(axis.astype(np.float64)) for axis in axes)
        self.shares = filled(shares.astype(np.float64))
        self.curve = lru_cache(CURVES)(self._curve)

    def __call__(self, *sizes: Num) -> Num:
        """The share at these sizes, which broadcast."""
        open_axes = [axis for axis, size in enumerate(sizes) if isinstance(size, np.ndarray)]
        if len(open_axes) < 2:
            along = open_axes[0] if open_axes else 0
            return self.curve(along, *sizes[:along], *sizes[along + 1 :])(sizes[along])
        values = self.shares
        for axis in reversed(range(len(sizes))):
            if axis not in open_axes:
                values = _between(values, axis, self.logs[axis], sizes[axis])
        return np.exp(_mixed(values, [self.logs[axis] for axis in open_axes], sizes, open_axes))

    def _curve(self, along: int, *others: float) -> Curve:
        values = self.shares
        sizes = iter(reversed(others))
        for axis in reversed(range(values.ndim)):
            if axis != along:
                values = _between(values, axis, self.logs[axis], next(sizes))
        return Curve(self.logs[along], values)


def _between(values: np.ndarray, axis: int, logs: np.ndarray, size: float) -> np.ndarray:
    """The grid without one axis, at one size of it."""
    low, part = _place(logs, math.log(size))
    before = values.take(low, axis)
    if not part:
        return before
    return before + part * (values.take(low + 1, axis) - before)


def _place(logs: np.ndarray, at: float) -> tuple[int, float]:
    """Index of the point before and how far behind it, from 0 to 1."""
    if len(logs) == 1 or at <= logs[0]:
        return 0, 0.0
    if at >= logs[-1]:
        return len(logs) - 1, 0.0
    low = int(np.searchsorted(logs, at, "right")) - 1
    return low, float((at - logs[low]) / (logs[low + 1] - logs[low]))


def _mixed(
    values: np.ndarray, logs: list[np.ndarray], sizes: tuple[Num, ...], open_axes: list[int]
) -> np.ndarray:
    """Between the corners around each element; sizes stay on their own axes of an open mesh."""
    flat = values.ravel()
    corners: list[tuple[Num, Num]] = [(0, 1.0)]
    for position, axis in enumerate(open_axes):
        points = logs[position]
        stride = math.prod(values.shape[position + 1 :])
        if len(points) == 1:
            continue
        at = np.clip(np.log(sizes[axis]), points[0], points[-1])
        low = np.clip(np.searchsorted(points, at, "right") - 1, 0, len(points) - 2)
        part = (at - points[low]) / (points[low + 1] - points[low])
        corners = [
            corner
            for index, weight in corners
            for corner in (
                (index + low * stride, weight * (1 - part)),
                (index + (low + 1) * stride, weight * part),
            )
        ]
    total: np.ndarray = sum(flat[index] * weight for index, weight in corners)
    return total


def filled(values: np.ndarray) -> np.ndarray:
    """The grid with every hole filled by the nearest point along its last axes first."""
    for axis in reversed(range(values.ndim)):
        for _ in range(2):
            known = ~np.isnan(values)
            shape = [1] * values.ndim
            shape[axis] = values.shape[axis]
            own = np.arange(values.shape[axis]).reshape(shape)
            last = np.maximum.accumulate(np.where(known, own, 0), axis)
            values = np.flip(np.take_along_axis(values, last, axis), axis)
    return values
