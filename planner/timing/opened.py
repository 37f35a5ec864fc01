"""A cause of time, opened: its kernels with the measured rows behind each, adding up to it."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict
from typing import Any, NamedTuple

from planner.kernels import explain
from planner.kernels.explanation import Explanation
from planner.term import TimeTerm
from planner.timing.look_ups import Beside, LookUp, look_ups


class Kernel(NamedTuple):
    """One kernel of a cause: how it was asked for, and what the answer rests on."""

    asked: LookUp
    found: Explanation
    seconds: float
    """Of all its runs, with every factor."""


class Opened(NamedTuple):
    """All that a cause of time consists of; its seconds are their sum."""

    kernels: tuple[Kernel, ...]
    """Longest first."""
    beside: tuple[Beside, ...]
    """What rests on no table of kernels."""

    @property
    def kernel_seconds(self) -> float:
        """Seconds of the kernels alone."""
        return math.fsum(one.seconds for one in self.kernels)

    @property
    def seconds(self) -> float:
        """The term's own."""
        return self.kernel_seconds + math.fsum(one.seconds for one in self.beside)


def opened(term: TimeTerm) -> Opened | None:
    """The kernels of a plan's term; None where no table has any of it."""
    runs: dict[tuple[Any, ...], float] = defaultdict(float)
    asked: dict[tuple[Any, ...], LookUp] = {}
    beside: dict[str, float] = defaultdict(float)
    for one in look_ups(term):
        if isinstance(one, Beside):
            beside[one.name] += one.seconds
            continue
        key = (one.kind, *one.sizes.items(), *one.factors.items())
        asked[key] = one
        runs[key] += one.runs
    kernels = [_kernel(one._replace(runs=runs[key])) for key, one in asked.items() if runs[key]]
    if not kernels:
        return None
    left = (Beside(name, seconds) for name, seconds in beside.items() if seconds)
    return Opened(tuple(sorted(kernels, key=lambda one: -one.seconds)), tuple(left))


def _kernel(asked: LookUp) -> Kernel:
    found = explain(asked.kind, asked.gpu, **asked.sizes)
    assert found is not None, "a term with look-ups has seconds"
    return Kernel(asked, found, asked.runs * found.seconds * math.prod(asked.factors.values()))


def opened_json(found: Opened) -> dict[str, Any]:
    """The same for programs: every kernel, however short."""
    return {
        "seconds": found.seconds,
        "kernels": [_kernel_json(one) for one in found.kernels],
        "beside": [one._asdict() for one in found.beside],
    }


def _kernel_json(one: Kernel) -> dict[str, Any]:
    asked, found = one.asked, one.found
    return {
        "kind": asked.kind,
        "sizes": dict(asked.sizes),
        "runs": asked.runs,
        "seconds_each": found.seconds,
        "factors": dict(asked.factors),
        "seconds": one.seconds,
        "roofline_seconds": found.roofline_seconds,
        "share": found.share,
        "limit": found.limit,
        "measured_on": found.tables.card,
        "measured_under": found.tables.version,
        "own": found.tables.own,
        "stretch": found.stretch,
        "gain": found.gain,
        "benchmark": found.benchmark,
        "nearest": [asdict(row) for row in found.rows],
        "source": found.source,
    }
