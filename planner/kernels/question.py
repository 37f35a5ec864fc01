"""One kernel asked about: the least time that it can take, and what a measured share makes of it.

A share is roofline by measured time, at most 1: the tables were measured again and again on the
same operands, part of which stay in the second-level cache, where no kernel of a real step finds
its weights or its keys and values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec

import numpy as np

from planner.catalog.efficiencies import Key
from planner.catalog.gpu_catalog import Gpu
from planner.formulas.duration import Rate
from planner.kernels.grid import Grid
from planner.kernels.tables import SOURCE, Loan, loan
from planner.numeric import Num, maximum, where

ROOFLINE_SECONDS = Rate(
    "roofline of one kernel",
    "maximum(flops / peak_flops_per_second, size_bytes / bandwidth_bytes_per_second)",
    unit="seconds",
    source="Williams et al. 2009 (Roofline), CACM 52(4)",
    why="A kernel takes at least the longer of two times: its FLOPs at the datasheet's peak rate, "
    "and its bytes at the peak bandwidth.",
    ignores="what stays in caches",
)
KERNEL_SECONDS = Rate(
    "one kernel by its shape",
    "roofline_seconds / share",
    unit="seconds",
    source=SOURCE,
    why="The roofline's time, divided by the share of the roofline that this kernel reached at the "
    "nearest measured shapes.",
    ignores="the gap before a launch, and kernels that run beside it",
)


class Limits(NamedTuple):
    """Peaks of a card's datasheet."""

    flops_per_second: float
    bytes_per_second: float


def limits(gpu: Gpu, dtype: str) -> Limits | None:
    """Peaks of a card for a dtype; None where either is unknown."""
    peak, bandwidth = gpu.flops_per_second(dtype), gpu.bandwidth_bytes_per_second
    return Limits(peak, bandwidth) if peak and bandwidth else None


def lent(gpu: Gpu, dtype: str, table: str) -> tuple[Limits, Loan] | None:
    """Peaks of a card and whose table it uses; None where either is unknown.

    A borrower's peak in half precision is scaled by how much of theirs the largest products reach.
    """
    peaks = limits(gpu, dtype)
    found = loan(gpu.key, table) if peaks else None
    if peaks is None or found is None:
        return None
    if found.gain != 1.0 and dtype not in ("bf16", "fp16"):
        found = found._replace(gain=1.0)
    return Limits(peaks.flops_per_second * found.gain, peaks.bytes_per_second), found


class Question(NamedTuple):
    """A kernel of some shape on some card."""

    gpu: Gpu
    limits: Limits
    loan: Loan
    flops: Num
    size_bytes: Num
    compute: Key
    """Efficiency of a benchmark of the card that replaces the share where compute limits."""
    share: Callable[[], Num]

    def own_seconds(self) -> Num | None:
        """Seconds by the flat shares that a benchmark of the card measured; None without any."""
        speeds = self.gpu.speeds
        if speeds is None:
            return None
        own = speeds.of(self.compute), speeds.of("decode-bandwidth")
        seconds = self.flops / self.limits[0], self.size_bytes / self.limits[1]
        flat = [least / one.typical for least, one in zip(seconds, own, strict=True) if one]
        if len(flat) != 1:
            return maximum(*flat) if flat else None
        return where((seconds[0] >= seconds[1]) == bool(own[0]), flat[0], self.table_seconds())

    def roofline_seconds(self) -> Num:
        """The least seconds that the datasheet's peaks allow."""
        return ROOFLINE_SECONDS(
            flops=self.flops,
            size_bytes=self.size_bytes,
            peak_flops_per_second=self.limits[0],
            bandwidth_bytes_per_second=self.limits[1],
        )

    def table_seconds(self) -> Num:
        """Roofline by the share of the nearest measured shapes."""
        return KERNEL_SECONDS(roofline_seconds=self.roofline_seconds(), share=self.share())

    def seconds(self) -> Num:
        """The card's own benchmark where it has one, else the table."""
        own = self.own_seconds()
        return self.table_seconds() if own is None else own


Asked = tuple[Question, Grid, tuple[Num, ...]]
Sizes = ParamSpec("Sizes")


def seconds_of(
    ask: Callable[Sizes, Question | Asked | None],
) -> Callable[Sizes, Num | None]:
    """A function that asks for the sizes it is given, and answers in seconds.

    None where the card's peaks are unknown; ``ValueError`` for a size that is not a finite number
    above 0.
    """

    @wraps(ask)
    def seconds(*of: Sizes.args, **sizes: Sizes.kwargs) -> Num | None:
        found = ask(*of, **sizes)
        if found is None:
            return None
        return (found if isinstance(found, Question) else found[0]).seconds()

    return seconds


def positive(**sizes: Num) -> None:
    """``ValueError`` naming the first size that is not a finite number above 0."""
    for name, size in sizes.items():
        low, high = (size.min(), size.max()) if isinstance(size, np.ndarray) else (size, size)
        if not 0 < low <= high < np.inf:
            raise ValueError(f"{name}: a kernel needs a finite size above 0, not {low}.")


def log_shares(
    peaks: Limits, flops: Num, size_bytes: Num, log_milliseconds: np.ndarray
) -> np.ndarray:
    """Logarithms of the shares that a table holds, capped at a share of 1."""
    least = maximum(flops / peaks[0], size_bytes / peaks[1])
    shares: np.ndarray = np.minimum(np.log(least * 1e3) - log_milliseconds, 0.0)
    return shares
