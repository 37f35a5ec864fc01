"""A log of a step: the births and deaths of storages, and the marks between them.

Plain data without torch. Events are tuples ``(kind, key, value)``; see the constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

BIRTH = 0
"""``key`` is a new storage's; ``value`` its bytes."""
DEATH = 1
"""``key`` is the storage's; ``value`` its bytes."""
BLOCK = 2
"""From here on events belong to layer ``key``; -1 is outside every layer. ``value`` is unused."""
PHASE = 3
"""``key`` indexes :attr:`Log.names`; ``value`` is 1 where the phase begins and 0 where it ends."""
SCRATCH = 4
"""A kernel takes ``value`` bytes and gives them back at once; ``key`` indexes names."""
EMPTY_CACHE = 5
"""Cached memory goes back to the driver."""
STEP = 6
"""Optimizer step number ``key`` of the run begins."""

ROUND = 7
"""From here on events belong to round ``key``, of those that ran, of an unrolled loop; -1 is
outside every round. ``value`` is unused."""

OUTSIDE = -1

Event = tuple[int, int, int]


class Made(NamedTuple):
    """Where a storage comes from and what it is."""

    size_bytes: int
    op: str
    module: str
    role: str
    category: str
    shape: tuple[int, ...]
    dtype: str
    stream: int = 0
    host: bool = False
    block: int = OUTSIDE
    by_layer: tuple[int, ...] = ()
    """Bytes that each layer has in it, of a buffer outside the layers that is all of theirs."""


@dataclass(slots=True)
class Log:
    """Everything that happened, in order."""

    events: list[Event] = field(default_factory=list)
    made: dict[int, Made] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rounds: int = 0
    """Rounds of the whole unrolled loop, where some were left out."""

    def name(self, text: str) -> int:
        """Number of a name, given at its first use."""
        if text not in self.names:
            self.names.append(text)
        return self.names.index(text)


def after_ends(events: Iterable[Event]) -> Iterator[tuple[list[Event], Event | None]]:
    """Every event that ends no storage, with the ends in a row before it; None comes last."""
    ends: list[Event] = []
    for event in events:
        if event[0] == DEATH:
            ends.append(event)
        else:
            yield ends, event
            ends = []
    yield ends, None
