"""How much of a card's peak real programs reach: intervals with their published figures.

Reads ``efficiencies.json`` once, on first use. Every interval is low, typical, high; an
estimate uses the typical value, and its stated error follows from the two ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.catalog.schema import Rate, Row, Text

Key = Literal[
    "training-compute",
    "forward-compute",
    "decode-bandwidth",
    "optimizer-bandwidth",
    "link-bandwidth",
    "pcie-collective-bandwidth",
    "network-bandwidth",
    "network-bytes-per-second",
    "collective-latency",
    "host-copy-bandwidth",
    "hf-step-seconds-per-layer",
    "engine-step-seconds-per-layer",
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
    """By compute capability; ``any`` for every other card."""
    published: Annotated[tuple[Published, ...], Field(min_length=1)]
    note: str

    @model_validator(mode="after")
    def _has_any(self) -> Self:
        if "any" not in self.intervals:
            raise ValueError(f"efficiencies.json: {self.key} needs an interval for 'any'.")
        return self

    def spread(self, compute_capability: str | None = None) -> tuple[float, float]:
        """Factors on the estimated time at the interval's best and worst end."""
        span = self.intervals.get(compute_capability or "any", self.intervals["any"])
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
    text = (files("planner.catalog") / "efficiencies.json").read_bytes()
    return EfficiencyFile.model_validate_json(text)


@cache
def efficiencies() -> Mapping[str, Efficiency]:
    """Every efficiency by key."""
    rows = _file().efficiencies
    found: dict[str, Efficiency] = {row.key: row for row in rows}
    if len(found) != len(rows):
        raise ValueError("efficiencies.json: two rows have the same key.")
    return MappingProxyType(found)


def interval(key: Key, compute_capability: str | None = None) -> Interval:
    """Interval of an efficiency for a card of this compute capability."""
    by_card = efficiencies()[key].intervals
    return by_card.get(compute_capability or "any", by_card["any"])


def typical(key: Key, compute_capability: str | None = None) -> float:
    """The value that an estimate uses."""
    return interval(key, compute_capability).typical


def date_read() -> str:
    """Day on which the published figures were read."""
    return _file().date_read
