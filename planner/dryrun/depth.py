"""From the log of a shallow run to the log of the whole model: the repeated block, repeated.

A step passes over the layers again and again: forward, recomputation, backward, the optimizer's
loops. In each such *sweep* what one layer does is what its neighbour of the same kind does, so
the shallow run's block is put in as often as the whole model has layers more. What an event in a
block refers to is found relative to the block: a layer frees its own tensors, or its neighbour's.

Peaks are looked for afterwards, in the whole log: live bytes at a fixed instant are linear in the
depth, but which instant is the peak is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.dryrun.log import BIRTH, BLOCK, DEATH, OUTSIDE, SCRATCH, Event, Log

MARGIN = 2
"""Units on either side of the one that stands for all others; its neighbours must be like it."""
SHARDED_MARGIN = 3
"""FSDP2 gathers and reduces for a layer's neighbours too, so ends reach one unit further."""

SCALAR = 8
"""Bytes up to which a storage may be made in one place and freed in another."""


class Irregular(Exception):
    """The log has no block that repeats; the model has to be run at its full depth."""


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
    return _Expansion(log, pattern).run()


@dataclass(slots=True)
class _Sweep:
    """Events of one pass over the layers, by the layer's place in the shallow run."""

    blocks: list[list[Event]]
    ascending: bool


@dataclass(frozen=True, slots=True)
class _Home:
    """Where a storage is born: the sweep, the layer's place in it, and the number there."""

    sweep: int
    place: int
    number: int


class _Expansion:
    def __init__(self, log: Log, pattern: Pattern) -> None:
        self.log, self.pattern = log, pattern
        self.first = pattern.lead + pattern.margin * pattern.period
        self.after = self.first + pattern.period
        self.shift = pattern.copies * pattern.period
        self.home: dict[int, _Home] = {}
        self.alive: dict[tuple[int, int, int], int] = {}
        self.out = Log(names=log.names, notes=log.notes)

    def run(self) -> Log:
        parts = _parts(self.log, self.pattern.shallow)
        for index, part in enumerate(parts):
            if isinstance(part, _Sweep):
                self._settle(index, part)
        for part in parts:
            if isinstance(part, _Sweep):
                self._repeat(part)
            else:
                for event in part:
                    self._put(event, None, 0)
        return self.out

    def _settle(self, index: int, sweep: _Sweep) -> None:
        """Number the births of each layer; units that stand for others have to be alike."""
        for place, events in enumerate(sweep.blocks):
            births = [key for kind, key, _ in events if kind == BIRTH]
            for number, key in enumerate(births):
                self.home[key] = _Home(index, place, number)
        period = self.pattern.period
        for place in range(self.first, self.after):
            own = _shape(sweep.blocks[place])
            for other in (place - period, place + period):
                if _shape(sweep.blocks[other]) != own:
                    raise Irregular(f"layers {place} and {other} differ")

    def _repeat(self, sweep: _Sweep) -> None:
        places = range(self.pattern.shallow)
        first, after, period = self.first, self.after, self.pattern.period
        copies = range(1, self.pattern.copies + 1)
        order = [(place, place) for place in places[:after]]
        order += [(place, place + c * period) for c in copies for place in range(first, after)]
        order += [(place, place + self.shift) for place in places[after:]]
        for place, layer in order if sweep.ascending else reversed(order):
            for event in sweep.blocks[place]:
                self._put(event, place, layer)

    def _put(self, event: Event, place: int | None, layer: int) -> None:
        kind, key, value = event
        if kind == BLOCK:
            inside = place is not None and key != OUTSIDE
            self.out.events.append((BLOCK, layer if inside else key, 0))
            return
        if kind not in (BIRTH, DEATH):
            self.out.events.append(event)
            return
        instance = self._instance(key, place, layer)
        if kind == BIRTH:
            new = len(self.out.made)
            self.alive[instance] = new
            self.out.made[new] = self.log.made[key]
        else:
            found = self.alive.pop(instance, None)
            if found is None:
                if value <= SCALAR and key not in self.home:
                    return  # made apart from the layers, one for each: only the first is known
                raise Irregular(f"{self.log.made[key].op} ends twice or before it begins")
            new = found
        self.out.events.append((kind, new, self.out.made[new].size_bytes))

    def _instance(self, key: int, place: int | None, layer: int) -> tuple[int, int, int]:
        """The storage of the whole model that an event of the shallow run stands for."""
        home = self.home.get(key)
        if home is None:
            return (OUTSIDE, key, 0)
        if place is not None and abs(home.place - place) <= self.pattern.period:
            return (home.sweep, home.number, layer + home.place - place)
        if home.place < self.first:
            return (home.sweep, home.number, home.place)
        if home.place >= self.after:
            return (home.sweep, home.number, home.place + self.shift)
        raise Irregular(f"a tensor of {self.log.made[key].op} is freed apart from its layer")


def _shape(events: list[Event]) -> list[tuple[int, int]]:
    """What a layer makes and frees; the order among ends in a row does not count."""
    shape: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    for kind, _, value in events:
        if kind == DEATH:
            ends.append((kind, value))
        elif kind in (BIRTH, SCRATCH):
            shape += sorted(ends)
            shape.append((kind, value))
            ends = []
    return shape + sorted(ends)


Part = _Sweep | list[Event]


def _parts(log: Log, layers: int) -> list[Part]:
    """The log as sweeps over all layers, and what lies between them."""
    parts: list[Part] = []
    for stretch in _marked(log.events, layers):
        if isinstance(stretch, _Sweep):
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


def _marked(events: list[Event], layers: int) -> list[Part]:
    """Sweeps that the marks of layers show."""
    marks = [
        (at, key) for at, (kind, key, _) in enumerate(events) if kind == BLOCK and key != OUTSIDE
    ]
    parts: list[Part] = []
    done = index = 0
    while index < len(marks):
        found = _sweep(marks, index, layers)
        if found is None:
            index += 1
            continue
        starts = found
        end = _end(events, starts[-1])
        following = index
        while following < len(marks) and marks[following][0] < end:
            # A recomputed forward may begin in the layer that a way back ends in.
            if marks[following][0] > starts[-1] and _sweep(marks, following, layers):
                end = marks[following][0]
                break
            following += 1
        parts.append(events[done : starts[0]])
        bounds = [*starts, end]
        blocks = [events[bounds[i] : bounds[i + 1]] for i in range(layers)]
        ascending = marks[index][1] == 0
        parts.append(_Sweep(blocks if ascending else blocks[::-1], ascending))
        done, index = end, following
    parts.append(events[done:])
    return parts


def _sweep(marks: list[tuple[int, int]], index: int, layers: int) -> list[int] | None:
    """Where each layer of a sweep that begins here starts."""
    start = marks[index][1]
    if start not in (0, layers - 1):
        return None
    step = 1 if start == 0 else -1
    starts, expected = [marks[index][0]], start
    while index < len(marks):
        at, layer = marks[index]
        if layer == expected + step and 0 <= layer < layers:
            starts.append(at)
            expected = layer
        elif layer != expected:
            return None
        if len(starts) == layers:
            return starts
        index += 1
    return None


def _end(events: list[Event], last: int) -> int:
    """A sweep ends where its last layer is left, for no layer or for another."""
    layer = events[last][1]
    for at in range(last + 1, len(events)):
        if events[at][0] == BLOCK and events[at][1] != layer:
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
        parts.append(_Sweep(blocks if ascending else blocks[::-1], ascending))
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
