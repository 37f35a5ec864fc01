"""From the log of a step whose unrolled loop was cut short to the log of all its rounds.

A loop whose graph stays alive (GRADE's soft tokens) does the same in every round, on a row that is
one token longer. The first rounds and the last run at their true lengths, with what has to be as
long as if all had run. The rounds between are put in from a neighbour's block, and every size in
them is the formula in the length that goes through the rounds on both sides. Outside the loop
nothing is extrapolated: all of it ran at its true size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from planner.dryrun.logs.log import BIRTH, OUTSIDE, ROUND, SCRATCH, Event, Log, Made, after_ends
from planner.dryrun.logs.repeat import Cut, Home, Irregular, Repeat
from planner.dryrun.logs.series import NoSeries, Points, through
from planner.dryrun.logs.sweeps import Sweep, marked

BEFORE = AFTER = 4
"""Rounds that run before those that are left out, and after them."""
UNIT = BEFORE - 1
"""Place, among the rounds that ran, of the one that is put in again."""
ALIKE = range(UNIT - 1, UNIT + 3)
"""Places of the rounds that have to be like it and give the sizes; the others may be ends."""


def chosen(count: int) -> list[int]:
    """The rounds of ``count`` that run; all of them where leaving some out saves nothing."""
    if count <= BEFORE + AFTER + 1:
        return list(range(count))
    return [*range(BEFORE), *range(count - AFTER, count)]


def unroll(log: Log, first_tokens: int) -> Log:
    """The log with all rounds in; a log that left none out as it is.

    Args:
        log: of a run that may have left rounds out.
        first_tokens: length of the rows in the first round; each following one has one more.

    Raises:
        Irregular: when rounds do not follow from their neighbours.
    """
    if not log.rounds:
        return log
    ran = chosen(log.rounds)
    cut = Cut(len(ran), UNIT, UNIT + 1, log.rounds - len(ran))
    return _Rounds(log, cut, first_tokens).run(marked(log.events, len(ran), ROUND))


class _Rounds(Repeat):
    def __init__(self, log: Log, cut: Cut, first_tokens: int) -> None:
        super().__init__(log, cut)
        self.first_tokens = first_tokens
        places = [place if place <= UNIT else place + cut.missing for place in ALIKE]
        self.lengths = [first_tokens + place for place in places]
        self.wanted = range(first_tokens + UNIT, first_tokens + UNIT + cut.missing + 1)
        self.alike: dict[int, list[Made]] = {}
        self.scratch: list[Mapping[int, int]] = []
        self.sizes: dict[int, list[Made]] = {}
        self.known: dict[Points, Mapping[int, int]] = {}

    def compare(self, sweep: Sweep) -> None:
        blocks = [sweep.blocks[place] for place in ALIKE]
        shapes = [self._shape(block, place) for block, place in zip(blocks, ALIKE, strict=True)]
        for place, shape in zip(ALIKE, shapes, strict=True):
            if shape != shapes[0]:
                raise Irregular(f"rounds {ALIKE[0]} and {place} of {self.cut.units} differ")
        births = [[key for kind, key, _ in block if kind == BIRTH] for block in blocks]
        for keys in zip(*births, strict=True):
            self.alike[keys[UNIT - ALIKE[0]]] = [self.log.made[key] for key in keys]
        taken = [[size for kind, _, size in block if kind == SCRATCH] for block in blocks]
        series = zip(*taken, strict=True)
        for at, (kind, key, _) in enumerate(sweep.blocks[UNIT]):
            if kind == SCRATCH:
                self.scratch.append(self._through(next(series), "a kernel's scratch"))
                sweep.blocks[UNIT][at] = (SCRATCH, key, -len(self.scratch))

    def made(self, key: int, layer: int) -> Made:
        if key not in self.alike:
            return self.log.made[key]
        if key not in self.sizes:
            self.sizes[key] = self._sizes(self.alike[key])
        return self.sizes[key][layer - UNIT]

    def mark(self, event: Event, place: int | None, layer: int) -> None:
        kind, key, value = event
        if kind == SCRATCH and value < 0:
            event = (kind, key, self.scratch[-value - 1][self.first_tokens + layer])
        if kind != ROUND:
            self.out.events.append(event)

    def between(self, events: list[Event]) -> None:
        """What ends one after the other ends for all rounds, where it does for those that ran."""
        for ends, event in after_ends(events):
            self._end_all(ends)
            if event is not None:
                self.put(event, None, 0)

    def _end_all(self, ends: list[Event]) -> None:
        homes = {self.home.get(key) for _, key, _ in ends}
        for event in ends:
            home = self.home.get(event[1])
            if home is None or home.place != UNIT:
                self.put(event, None, 0)
                continue
            if not all(Home(home.sweep, place, home.number) in homes for place in ALIKE):
                raise Irregular(f"a tensor of {self.log.made[event[1]].op} ends in one round alone")
            for layer in range(UNIT, UNIT + 1 + self.cut.missing):
                self.end((home.sweep, home.number, layer), event[1], event[2])

    def _shape(self, events: list[Event], place: int) -> list[tuple[object, ...]]:
        """What a round makes and frees, without sizes; ends in a row may be in any order."""
        shape: list[tuple[object, ...]] = []
        for ends, event in after_ends(event for event in events if event[0] != ROUND):
            shape += sorted(self._whose(key, place) for _, key, _ in ends)
            if event is not None and event[0] == BIRTH:
                made = self.log.made[event[1]]
                shape.append((*made._replace(size_bytes=0, shape=()), len(made.shape)))
            elif event is not None:
                shape.append(event[:2])
        return shape

    def _whose(self, key: int, place: int) -> tuple[int, int, str]:
        """What a round ends: its own by number, and another's by kind, since ends number anew."""
        home = self.home.get(key)
        if home is None:
            return (OUTSIDE, 0, str(key))
        if home.place == place:
            return (home.sweep, 0, str(home.number))
        return (home.sweep, home.place - place, self.log.made[key].op)

    def _sizes(self, alike: list[Made]) -> list[Made]:
        """What a storage is in every round from the unit on, by those in rounds like it."""
        unit = alike[UNIT - ALIKE[0]]
        sides = zip(*(made.shape for made in alike), strict=True)
        dims = [self._through(sizes, unit.op) for sizes in sides]
        shapes = [tuple(dim[length] for dim in dims) for length in self.wanted]
        each = unit.size_bytes // max(prod(unit.shape), 1)
        if all(made.size_bytes == each * prod(made.shape) for made in alike):
            sizes = [each * prod(shape) for shape in shapes]
        else:
            found = self._through([made.size_bytes for made in alike], unit.op)
            sizes = [found[length] for length in self.wanted]
        pairs = zip(sizes, shapes, strict=True)
        return [unit._replace(size_bytes=size, shape=shape) for size, shape in pairs]

    def _through(self, sizes: Sequence[int], what: str) -> Mapping[int, int]:
        points = tuple(zip(self.lengths, sizes, strict=True))
        if points not in self.known:
            try:
                self.known[points] = through(points, self.wanted)
            except NoSeries:
                raise Irregular(f"sizes of {what} follow no formula: {points}") from None
        return self.known[points]
