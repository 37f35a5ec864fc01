"""Where a log passes over the layers of a model, or over the rounds of an unrolled loop.

Each *sweep* is a pass from the first unit to the last or back: forward, recomputation, backward,
an optimizer's loop over weights. Marks in the log show where a unit begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from planner.dryrun.logs.log import BIRTH, BLOCK, DEATH, OUTSIDE, Event, Log, after_ends


@dataclass(slots=True)
class Sweep:
    """Events of one pass, by the unit's place in the run that was cut short."""

    blocks: list[list[Event]]
    ascending: bool


Part = Sweep | list[Event]


def layer_sweeps(log: Log, layers: int) -> list[Part]:
    """The log as sweeps over all layers, and what lies between them."""
    parts: list[Part] = []
    for stretch in marked(log.events, layers, BLOCK):
        if isinstance(stretch, Sweep):
            parts.append(stretch)
        else:
            for piece in _fenced(stretch):
                parts.extend(_tagged(log, _ordered(log, piece), layers))
    return parts


def _ordered(log: Log, events: list[Event]) -> list[Event]:
    """The events with storages that end one after the other put in the order of layers.

    Nothing begins between such ends, so no instant changes; autocast's cache, for one, frees
    its copies in the order of a hash table.
    """
    ordered: list[Event] = []
    for ends, event in after_ends(events):
        ordered += sorted(ends, key=lambda end: log.made[end[1]].block)
        if event is not None:
            ordered.append(event)
    return ordered


def _fenced(events: list[Event]) -> list[list[Event]]:
    """The events between two marks that lead outside every layer; no loop goes on over one."""
    fences = [at for at, event in enumerate(events) if event[0] == BLOCK]
    return [events[a:b] for a, b in pairwise((0, *fences, len(events)))]


def marked(events: list[Event], units: int, mark: int) -> list[Part]:
    """Sweeps over ``units`` that marks of one kind show, and the events between them."""
    marks = [
        (at, key) for at, (kind, key, _) in enumerate(events) if kind == mark and key != OUTSIDE
    ]

    def end(last: int) -> tuple[int, int]:
        """A sweep ends where its last unit is left, for none or for another."""
        start, unit = marks[last]
        left = (
            at
            for at in range(start + 1, len(events))
            if events[at][0] == mark and events[at][1] != unit
        )
        end, following = next(left, len(events)), last + 1
        # A recomputed forward may begin in the layer that a way back ends in.
        while following < len(marks) and marks[following][0] < end:
            if _starts(marks, following, units):
                return marks[following][0], following
            following += 1
        return end, following

    return _parts(events, marks, units, lambda _, last: end(last))


def _tagged(log: Log, events: list[Event], layers: int) -> list[Part]:
    """Sweeps of loops over weights: known by the layer that each storage belongs to.

    A loop that only makes tensors, or only frees some, ends where the other begins: a list of
    results is made from the first to the last and may be freed from the last to the first.
    """
    tags = [log.made[key].block if kind in (BIRTH, DEATH) else OUTSIDE for kind, key, _ in events]
    marks = [(at, tag) for at, tag in enumerate(tags) if tag != OUTSIDE]

    def end(first: int, last: int) -> tuple[int, int]:
        kinds = {events[at][0] for at, _ in marks[first : last + 1]}
        following = last + 1
        while following < len(marks):
            at, layer = marks[following]
            if layer != marks[last][1] or events[at][0] not in kinds:
                break
            following += 1
        return marks[following - 1][0] + 1, following

    return _parts(events, marks, layers, end)


Marks = list[tuple[int, int]]
"""Where a mark stands, and the unit it names."""


def _parts(
    events: list[Event], marks: Marks, units: int, end: Callable[[int, int], tuple[int, int]]
) -> list[Part]:
    """Sweeps and what lies between them; ``end`` is told the first and last mark of a sweep.

    It says where the sweep ends, and which mark follows.
    """
    parts: list[Part] = []
    done = index = 0
    while index < len(marks):
        starts = _starts(marks, index, units)
        if starts is None:
            index += 1
            continue
        stop, following = end(index, starts[-1])
        bounds = [*(marks[start][0] for start in starts), stop]
        blocks = [events[a:b] for a, b in pairwise(bounds)]
        ascending = marks[index][1] == 0
        parts.append(events[done : bounds[0]])
        parts.append(Sweep(blocks if ascending else blocks[::-1], ascending))
        done, index = stop, following
    parts.append(events[done:])
    return parts


def _starts(marks: Marks, index: int, units: int) -> list[int] | None:
    """The mark that begins each unit of a sweep that begins here."""
    unit = marks[index][1]
    if unit not in (0, units - 1):
        return None
    step = 1 if unit == 0 else -1
    starts = [index]
    while len(starts) < units:
        index += 1
        if index == len(marks) or marks[index][1] not in (unit, unit + step):
            return None
        if marks[index][1] != unit:
            unit += step
            starts.append(index)
    return starts
