"""Where a log passes over the layers of a model, or over the rounds of an unrolled loop.

Each *sweep* is a pass from the first unit to the last or back: forward, recomputation, backward,
an optimizer's loop over weights. Marks in the log show where a unit begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.dryrun.logs.log import BIRTH, BLOCK, DEATH, OUTSIDE, Event, Log


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
    ends: list[Event] = []
    for event in events:
        if event[0] == DEATH:
            ends.append(event)
            continue
        ordered += sorted(ends, key=lambda end: log.made[end[1]].block)
        ends = []
        ordered.append(event)
    return ordered + sorted(ends, key=lambda end: log.made[end[1]].block)


def _fenced(events: list[Event]) -> list[list[Event]]:
    """The events between two marks that lead outside every layer; no loop goes on over one."""
    pieces: list[list[Event]] = [[]]
    for event in events:
        if event[0] == BLOCK:
            pieces.append([])
        pieces[-1].append(event)
    return pieces


def marked(events: list[Event], units: int, mark: int) -> list[Part]:
    """Sweeps over ``units`` that marks of one kind show, and the events between them."""
    marks = [
        (at, key) for at, (kind, key, _) in enumerate(events) if kind == mark and key != OUTSIDE
    ]
    parts: list[Part] = []
    done = index = 0
    while index < len(marks):
        found = _sweep(marks, index, units)
        if found is None:
            index += 1
            continue
        starts = found
        end = _end(events, starts[-1], mark)
        following = index
        while following < len(marks) and marks[following][0] < end:
            # A recomputed forward may begin in the layer that a way back ends in.
            if marks[following][0] > starts[-1] and _sweep(marks, following, units):
                end = marks[following][0]
                break
            following += 1
        parts.append(events[done : starts[0]])
        bounds = [*starts, end]
        blocks = [events[bounds[i] : bounds[i + 1]] for i in range(units)]
        ascending = marks[index][1] == 0
        parts.append(Sweep(blocks if ascending else blocks[::-1], ascending))
        done, index = end, following
    parts.append(events[done:])
    return parts


def _sweep(marks: list[tuple[int, int]], index: int, units: int) -> list[int] | None:
    """Where each unit of a sweep that begins here starts."""
    start = marks[index][1]
    if start not in (0, units - 1):
        return None
    step = 1 if start == 0 else -1
    starts, expected = [marks[index][0]], start
    while index < len(marks):
        at, unit = marks[index]
        if unit == expected + step and 0 <= unit < units:
            starts.append(at)
            expected = unit
        elif unit != expected:
            return None
        if len(starts) == units:
            return starts
        index += 1
    return None


def _end(events: list[Event], last: int, mark: int) -> int:
    """A sweep ends where its last unit is left, for none or for another."""
    unit = events[last][1]
    for at in range(last + 1, len(events)):
        if events[at][0] == mark and events[at][1] != unit:
            return at
    return len(events)


def _tagged(log: Log, events: list[Event], layers: int) -> list[Part]:
    """Sweeps of loops over weights: known by the layer that each storage belongs to."""
    tags = [log.made[key].block if kind in (BIRTH, DEATH) else OUTSIDE for kind, key, _ in events]
    places = [at for at, tag in enumerate(tags) if tag != OUTSIDE]
    parts: list[Part] = []
    done = index = 0
    while index < len(places):
        found = _loop(events, places, tags, index, layers)
        if found is None:
            index += 1
            continue
        starts, following = found
        parts.append(events[done : starts[0]])
        end = places[following - 1] + 1
        bounds = [*starts, end]
        blocks = [events[bounds[i] : bounds[i + 1]] for i in range(layers)]
        ascending = tags[places[index]] == 0
        parts.append(Sweep(blocks if ascending else blocks[::-1], ascending))
        done, index = end, following
    parts.append(events[done:])
    return parts


def _loop(
    events: list[Event], places: list[int], tags: list[int], index: int, layers: int
) -> tuple[list[int], int] | None:
    """Where each layer of a loop that begins here starts, and the place that follows it.

    A loop that only makes tensors, or only frees some, ends where the other begins: a list of
    results is made from the first to the last and may be freed from the last to the first.
    """
    start = tags[places[index]]
    if start not in (0, layers - 1):
        return None
    step = 1 if start == 0 else -1
    starts, expected, kinds = [places[index]], start, set[int]()
    while index < len(places):
        at = places[index]
        if tags[at] == expected + step and 0 <= tags[at] < layers:
            starts.append(at)
            expected = tags[at]
        elif (
            tags[at] != expected
            or len(starts) == layers
            and len(kinds) == 1
            and events[at][0] not in kinds
        ):
            break
        kinds.add(events[at][0])
        index += 1
    return (starts, index) if len(starts) == layers else None
