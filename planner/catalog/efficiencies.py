"""How much of a card's peak real programs reach: intervals with their published figures.

Reads ``efficiencies.json`` once, on first use. Every interval is low, typical, high; an
estimate uses the typical value, and its stated error follows from the two ends. A card that
was measured (:class:`planner.speeds.Speeds`) has its own in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.catalog.gpu_catalog import Gpu
from planner.catalog.schema import Rate, Row, Text, by_key, read_rows

Key = Literal[
    "training-compute",
    "forward-compute",
    "decode-bandwidth",
    "optimizer-bandwidth",
    "link-bandwidth",
    "pcie-collective-bandwidth",
    "network-bandwidth",
    "network-bytes-per-second",
    "disk-bytes-per-second",
    "collective-latency",
    "host-copy-bandwidth",
    "overlap-slowdown",
    "sustained-compute",
    "host-update-seconds",
    "host-thread-bytes-per-second",
    "host-thread-bytes-per-second-unfused",
    "hf-step-seconds-per-layer",
    "engine-host-seconds-per-step",
    "engine-host-seconds-per-sequence",
    "engine-host-seconds-per-logprob",
    "engine-eager-seconds-per-layer",
    "engine-load-seconds-per-tensor",
    "engine-request-seconds",
    "remap-bytes-per-second",
]


class Interval(Row):
    """Low, typical and high value of one efficiency."""

    low: Rate
    typical: Rate
    high: Rate

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.typical <= self.high:
            raise ValueError("efficiencies.json: an interval must be low <= typical <= high.")
        return self


class Published(Row):
    """One published figure and what it means as a value of the interval."""

    figure: Text
    value: Annotated[tuple[Rate, ...], Field(min_length=1)]
    source: Text


class Efficiency(Row):
    """One efficiency: intervals, by compute capability where published figures differ."""

    key: Key
    what: Text
    unit: Text
    intervals: dict[str, Interval]
    """By a card's key or its compute capability; ``any`` for every other card."""
    published: Annotated[tuple[Published, ...], Field(min_length=1)]
    note: str

    @model_validator(mode="after")
    def _has_any(self) -> Self:
        if "any" not in self.intervals:
            raise ValueError(f"efficiencies.json: {self.key} needs an interval for 'any'.")
        return self

    def published_for(self, gpu: Gpu | None) -> Interval:
        """The published interval for a card, or for those of its compute capability."""
        known = self.intervals
        own = gpu and (known.get(gpu.key) or known.get(gpu.compute_capability or "any"))
        return own or known["any"]

    def of(self, gpu: Gpu | None) -> Interval:
        """What was measured on such a card, or else the published interval."""
        own = gpu.speeds.of(self.key) if gpu and gpu.speeds else None
        if own is None:
            return self.published_for(gpu)
        return Interval(low=own.low, typical=own.typical, high=own.high)

    def spread(self, gpu: Gpu | None = None) -> tuple[float, float]:
        """Factors on the estimated time at the interval's best and worst end."""
        span = self.of(gpu)
        if self.unit.startswith("seconds"):
            return span.low / span.typical, span.high / span.typical
        return span.typical / span.high, span.typical / span.low


class EfficiencyFile(Row):
    """``efficiencies.json``."""

    about: Text
    date_read: Text
    efficiencies: tuple[Efficiency, ...]


@cache
def _file() -> EfficiencyFile:
    return read_rows("efficiencies.json", EfficiencyFile)


@cache
def efficiencies() -> Mapping[str, Efficiency]:
    """Every efficiency by key."""
    return by_key("efficiencies.json", ((row.key, row) for row in _file().efficiencies))


@lru_cache(maxsize=2048)
def typical(key: Key, gpu: Gpu | None = None) -> float:
    """The value that an estimate for a card uses."""
    return efficiencies()[key].of(gpu).typical


def date_read() -> str:
    """Day on which the published figures were read."""
    return _file().date_read
