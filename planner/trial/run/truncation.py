"""Whether a plan fits here, and which two shallower models stand for it where it does not.

A truncated plan keeps width, vocabulary, lengths and micro-batch; only layers are left out, whole
units of those that repeat. No torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.dryrun.logs.depth import Pattern

LEAST = 2
"""Units of the shallower of two models: its layers have neighbours of their own kind."""
MOST = 8
"""Units of the deeper of the two; more takes longer and tells little more."""
SHARE = 0.9
"""Of what is there a trial plans to take this much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a run of some depth takes: bytes of the device, and seconds."""

    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Room(Needs):
    """What is there for a trial."""

    def holds(self, needs: Needs) -> bool:
        """Whether a run fits, with some room left."""
        return needs.bytes <= SHARE * self.bytes and needs.seconds <= SHARE * self.seconds


def depths_of(pattern: Pattern) -> tuple[int, ...]:
    """Numbers of layers that keep the model's pattern, fewer than it has, rising."""
    rest = (pattern.layers - pattern.lead) % pattern.period
    base = pattern.lead + rest
    return tuple(
        layers
        for units in range(1, MOST + 1)
        if (layers := base + units * pattern.period) < pattern.layers
    )


def two_depths(
    pattern: Pattern, full: Needs, shallow: Callable[[int], Needs], room: Room
) -> tuple[int, int] | None:
    """The two depths to run, or None when not even the smallest two fit.

    What a depth between the smallest and the full one takes is at most what the straight line
    between those two says: a peak is the highest of many straight lines.

    Args:
        pattern: of the model's layers.
        full: what the whole model takes.
        shallow: what a model of so many layers takes; asked once.
        room: what is there.
    """
    depths = depths_of(pattern)
    if len(depths) < 2:
        return None
    # Of the two shallowest the second is tried first.
    tried = dict.fromkeys((depths[min(LEAST - 1, len(depths) - 2)], depths[0]))
    taken = ((layers, shallow(layers)) for layers in tried)
    holding = next((pair for pair in taken if room.holds(pair[1])), None)
    if holding is None:
        return None
    low, first = holding

    def needs(layers: int) -> Needs:
        share = (layers - low) / (pattern.layers - low)
        return Needs(
            bytes=round(first.bytes + share * (full.bytes - first.bytes)),
            seconds=first.seconds + share * (full.seconds - first.seconds),
        )

    fitting = [layers for layers in depths if layers > low and room.holds(needs(layers))]
    if fitting:
        return low, fitting[-1]
    # The smallest fits wherever one of more layers does.
    return (depths[0], low) if low != depths[0] else None
