"""From the log of a shallow run to the log of the whole model: the repeated block, repeated.

A step passes over the layers again and again: forward, recomputation, backward, the optimizer's
loops. In each such *sweep* what one layer does is what its neighbour of the same kind does, so
the shallow run's block is put in as often as the whole model has layers more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.dryrun.logs.log import (
    BIRTH,
    BLOCK,
    DEATH,
    OUTSIDE,
    SCRATCH,
    Event,
    Log,
    Made,
    after_ends,
)
from planner.dryrun.logs.repeat import Cut, Irregular, Repeat
from planner.dryrun.logs.sweeps import Sweep, layer_sweeps

MARGIN = 2
"""Units on either side of the one that stands for all others; its neighbours must be like it."""
SHARDED_MARGIN = 3
"""FSDP2 gathers and reduces for a layer's neighbours too, so ends reach one unit further."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """``lead`` layers of their own, then units of ``period`` layers, ``layers`` in all."""

    layers: int
    lead: int
    period: int
    margin: int = MARGIN

    @property
    def shallow(self) -> int:
        """Layers of the shallow run; all of them where that saves nothing."""
        rest = (self.layers - self.lead) % self.period
        return min(self.layers, self.lead + (2 * self.margin + 1) * self.period + rest)

    @property
    def copies(self) -> int:
        """How often the unit is put in again."""
        return (self.layers - self.shallow) // self.period


def pattern_of(kinds: Sequence[object], margin: int = MARGIN) -> Pattern:
    """The shortest period, after the shortest lead, that a model's kinds of layers follow."""
    count = len(kinds)
    best: Pattern | None = None
    for lead in range(min(count, 8)):
        for period in range(1, min(count - lead, 12) + 1):
            if all(kinds[i] == kinds[i - period] for i in range(lead + period, count)):
                found = Pattern(count, lead, period, margin)
                if best is None or found.shallow < best.shallow:
                    best = found
                break
    return best or Pattern(count, 0, count, margin)


def expand(log: Log, pattern: Pattern) -> Log:
    """The log of the whole model.

    Raises:
        Irregular: when some of it does not follow the pattern.
    """
    if not pattern.copies:
        return log
    first = pattern.lead + pattern.margin * pattern.period
    cut = Cut(pattern.shallow, first, first + pattern.period, pattern.copies)
    return _Layers(log, cut).run(layer_sweeps(log, pattern.shallow))


class _Layers(Repeat):
    def compare(self, sweep: Sweep) -> None:
        period = self.cut.period
        for place in range(self.cut.first, self.cut.after):
            own = _shape(sweep.blocks[place])
            for other in (place - period, place + period):
                if _shape(sweep.blocks[other]) != own:
                    raise Irregular(f"layers {place} and {other} differ")

    def made(self, key: int, layer: int) -> Made:
        """A buffer of all layers is as much larger as layers are put in."""
        found = self.log.made[key]
        more = self.cut.copies * sum(found.by_layer[self.cut.first : self.cut.after])
        return found._replace(size_bytes=found.size_bytes + more) if more else found

    def mark(self, event: Event, place: int | None, layer: int) -> None:
        kind, key, _ = event
        if kind == BLOCK and key != OUTSIDE and place is not None:
            event = (BLOCK, layer, 0)
        self.out.events.append(event)


def _shape(events: list[Event]) -> list[tuple[int, int]]:
    """What a layer makes and frees; the order among ends in a row does not count."""
    shape: list[tuple[int, int]] = []
    for ends, event in after_ends(event for event in events if event[0] in (BIRTH, DEATH, SCRATCH)):
        shape += sorted((kind, size) for kind, _, size in ends)
        if event is not None:
            shape.append((event[0], event[2]))
    return shape
