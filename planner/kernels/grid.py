"""Shares of the roofline on a grid of sizes, read between its points in log space.

Between two measured sizes the logarithm of the share runs straight in the logarithm of the size;
beyond the last one it stays what it was there. Where all sizes but one are numbers the grid becomes
a curve once, and the curve is kept. Imports numpy and nothing of ours but :mod:`planner.numeric`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from planner.numeric import Num

Floats = npt.NDArray[np.float64]

CURVES = 1024
"""Curves kept of a grid; a plan needs some dozens."""


class Line:
    """What runs straight between its points, and stays what it is beyond the last ones."""

    __slots__ = ("points", "values", "x", "y")

    def __init__(self, x: Floats, y: Floats) -> None:
        self.x, self.y = x, y
        self.points: list[float] = x.tolist()
        self.values: list[float] = y.tolist()

    def __call__(self, at: Num) -> Num:
        """Its value at a number or an array."""
        if isinstance(at, np.ndarray):
            return np.interp(at, self.x, self.y)
        points, values = self.points, self.values
        after = bisect_right(points, at)
        if not after or after == len(points):
            return values[min(after, len(points) - 1)]
        low, high = points[after - 1], values[after - 1]
        slope = (values[after] - high) / (points[after] - low)
        return high + slope * (at - low)


class Curve(Line):
    """Logarithm of a share over the logarithm of one size."""

    __slots__ = ()

    def __call__(self, at: Num) -> Num:
        """The share at a size, a number or an array."""
        if isinstance(at, np.ndarray):
            return np.exp(Line.__call__(self, np.log(at)))
        return math.exp(Line.__call__(self, math.log(at)))


class Grid:
    """Shares by sizes, one axis each, beside the milliseconds that were measured."""

    __slots__ = ("axes", "curve", "logs", "longest", "milliseconds", "points", "shares")

    def __init__(
        self,
        axes: tuple[npt.NDArray[np.int32], ...],
        milliseconds: Floats,
        shares: Floats,
        holes: tuple[int, ...],
    ) -> None:
        """``axes``: sizes, rising. ``shares``: their logarithms, NaN where nothing is known.

        A hole takes the share of the nearest point along the first axis of ``holes`` that has one.
        """
        self.axes = axes
        self.logs: tuple[Floats, ...] = tuple(np.log(axis.astype(np.float64)) for axis in axes)
        self.milliseconds = milliseconds
        self.shares = filled(shares, holes)
        self.longest = int(np.argmax(shares.shape))
        self.points = frozenset(axis for axis, size in enumerate(shares.shape) if size == 1)
        self.curve: Callable[..., Curve] = lru_cache(CURVES)(self._curve)

    def __call__(self, *sizes: Num) -> Num:
        """The share at these sizes, which broadcast; an axis of one point asks nothing."""
        arrays = [axis for axis, size in enumerate(sizes) if isinstance(size, np.ndarray)]
        for axis in self.points.intersection(arrays):
            arrays.remove(axis)
            sizes = (*sizes[:axis], 1, *sizes[axis + 1 :])
        if len(arrays) < 2:
            along = arrays[0] if arrays else self.longest
            return self.curve(along, *sizes[:along], *sizes[along + 1 :])(sizes[along])
        values = self.shares
        for axis in reversed(range(len(sizes))):
            if axis not in arrays:
                values = _between(values, axis, self.logs[axis], sizes[axis])
        logs = [self.logs[axis] for axis in arrays]
        return np.exp(_mixed(values, logs, [sizes[axis] for axis in arrays]))

    def around(self, *sizes: float) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Measured points at the corners around a size: distance in log space, and index."""
        places = [_place(logs, math.log(at)) for logs, at in zip(self.logs, sizes, strict=True)]
        for index in product(*({low, low + 1} if part else {low} for low, part in places)):
            if not np.isnan(self.milliseconds[index]):
                apart = [
                    logs[i] - math.log(at)
                    for logs, i, at in zip(self.logs, index, sizes, strict=True)
                ]
                yield math.hypot(*apart), index

    def nearest(self, *sizes: float) -> list[tuple[float, tuple[int, ...]]]:
        """Every measured point, nearest first: for a size whose corners are all holes."""
        apart = [logs - math.log(at) for logs, at in zip(self.logs, sizes, strict=True)]
        mesh = np.meshgrid(*apart, indexing="ij", sparse=True)
        far = np.sqrt(sum(one**2 for one in mesh))
        points = zip(*np.nonzero(~np.isnan(self.milliseconds)), strict=True)
        return sorted((float(far[at]), tuple(map(int, at))) for at in points)

    def _curve(self, along: int, *others: float) -> Curve:
        values = self.shares
        sizes = iter(reversed(others))
        for axis in reversed(range(values.ndim)):
            if axis != along:
                values = _between(values, axis, self.logs[axis], next(sizes))
        return Curve(self.logs[along], values)


def _place(logs: Floats, at: float) -> tuple[int, float]:
    """Index of the point before and how far behind it, from 0 up to 1."""
    if at <= logs[0]:
        return 0, 0.0
    if at >= logs[-1]:
        return len(logs) - 1, 0.0
    low = int(np.searchsorted(logs, at, "right")) - 1
    return low, float((at - logs[low]) / (logs[low + 1] - logs[low]))


def _between(values: Floats, axis: int, logs: Floats, size: float) -> Floats:
    """The grid without one axis, at one size of it."""
    low, part = _place(logs, math.log(size))
    before: Floats = np.asarray(values.take(low, axis))
    if part:
        return before + part * (values.take(low + 1, axis) - before)
    return before


def _places(logs: Floats, size: Num) -> tuple[npt.NDArray[np.intp], Floats]:
    """The same of an array; a whole part of the last step stands for the end."""
    at = np.clip(np.log(size), logs[0], logs[-1])
    low = np.minimum(np.searchsorted(logs, at, "right") - 1, len(logs) - 2)
    return low, (at - logs[low]) / (logs[low + 1] - logs[low])


def _mixed(values: Floats, logs: list[Floats], sizes: list[Num]) -> Floats:
    """Between the corners around each element."""
    if len(sizes) == 2 and (found := _meshed(values, logs, sizes)) is not None:
        return found
    corners: list[tuple[Num, Num]] = [(0, 1.0)]
    for position, size in enumerate(sizes):
        stride = math.prod(values.shape[position + 1 :])
        low, part = _places(logs[position], size)
        corners = [
            corner
            for index, weight in corners
            for corner in (
                (index + low * stride, weight * (1 - part)),
                (index + (low + 1) * stride, weight * part),
            )
        ]
    flat = values.ravel()
    total: Floats = np.asarray(sum(flat[index] * weight for index, weight in corners))
    return total


def _meshed(values: Floats, logs: list[Floats], sizes: list[Num]) -> Floats | None:
    """Two sizes that vary along different axes of an open mesh: one after the other."""
    shape = np.broadcast_shapes(sizes[0].shape, sizes[1].shape)
    rank = len(shape)
    first, second = ((1,) * (rank - size.ndim) + size.shape for size in sizes)
    if any(a > 1 and b > 1 for a, b in zip(first, second, strict=True)):
        return None
    (low, part), (then, rest) = (
        _places(axis, size.ravel()) for axis, size in zip(logs, sizes, strict=True)
    )
    rows = values[low] + part[:, None] * (values[low + 1] - values[low])
    steps = np.diff(rows, axis=1)
    mixed: Floats = rows[:, then] + steps[:, then] * rest
    order = [axis for pair in zip(range(rank), range(rank, 2 * rank), strict=True) for axis in pair]
    return mixed.reshape(first + second).transpose(order).reshape(shape)


def filled(values: Floats, axes: tuple[int, ...]) -> Floats:
    """The grid with every hole filled by the point before it along an axis, else behind it."""
    for axis in axes:
        for _ in range(2):
            known = ~np.isnan(values)
            own = np.arange(values.shape[axis]).reshape(
                [-1 if at == axis else 1 for at in range(values.ndim)]
            )
            last = np.maximum.accumulate(np.where(known, own, 0), axis)
            values = np.flip(np.take_along_axis(values, last, axis), axis)
    return values
