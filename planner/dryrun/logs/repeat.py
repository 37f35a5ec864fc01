"""From the log of a run that was cut short to the log of the whole one: units put in again.

What a storage or an event of the whole log stands for is found relative to its unit: a unit ends
its own tensors, or its neighbour's. Peaks are looked for afterwards, in the whole log: live bytes
at a fixed instant follow the number of units, but which instant is the peak does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planner.dryrun.logs.log import BIRTH, DEATH, OUTSIDE, Event, Log, Made
from planner.dryrun.logs.sweeps import Part, Sweep

SCALAR = 8
"""Bytes up to which a storage may be made in one place and freed in another."""


class Irregular(Exception):
    """The log has no units that repeat; what was cut short has to be run whole."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Units ``first`` to before ``after``, of ``units`` that ran, are put in ``copies`` times more.

    ``missing`` units were left out.
    """

    units: int
    first: int
    after: int
    copies: int

    @property
    def period(self) -> int:
        """Units that repeat together."""
        return self.after - self.first

    @property
    def missing(self) -> int:
        """Units of the whole run that did not run."""
        return self.copies * self.period


class Home(NamedTuple):
    """Where a storage is born: the sweep, the unit's place in it, and the number there."""

    sweep: int
    place: int
    number: int


class Repeat:
    """Puts units in; what a unit is, and how units are alike, is its subclasses' to say."""

    def __init__(self, log: Log, cut: Cut) -> None:
        self.log, self.cut = log, cut
        self.home: dict[int, Home] = {}
        self.alive: dict[tuple[int, int, int], int] = {}
        self.out = Log(names=log.names, notes=log.notes)

    def run(self, parts: Sequence[Part]) -> Log:
        """The whole log.

        Raises:
            Irregular: when some of it does not follow the pattern.
        """
        sweeps = [(index, part) for index, part in enumerate(parts) if isinstance(part, Sweep)]
        for index, sweep in sweeps:
            for place, events in enumerate(sweep.blocks):
                births = [key for kind, key, _ in events if kind == BIRTH]
                for number, key in enumerate(births):
                    self.home[key] = Home(index, place, number)
        for _, sweep in sweeps:
            self.compare(sweep)
        for part in parts:
            if isinstance(part, Sweep):
                self._repeat(part)
            else:
                self.between(part)
        return self.out

    def compare(self, sweep: Sweep) -> None:
        """Units that stand for others have to be like their neighbours.

        Raises:
            Irregular: when they are not.
        """
        raise NotImplementedError

    def made(self, key: int, layer: int) -> Made:
        """What a storage is in unit ``layer`` of the whole run."""
        return self.log.made[key]

    def mark(self, event: Event, place: int | None, layer: int) -> None:
        """Take over an event that is no storage's."""
        self.out.events.append(event)

    def between(self, events: list[Event]) -> None:
        """Take over events that belong to no sweep."""
        for event in events:
            self.put(event, None, 0)

    def _repeat(self, sweep: Sweep) -> None:
        cut = self.cut
        repeats = range(0, cut.missing + 1, cut.period)
        order = [(place, place) for place in range(cut.first)]
        order += [(place, place + by) for by in repeats for place in range(cut.first, cut.after)]
        order += [(place, place + cut.missing) for place in range(cut.after, cut.units)]
        for place, layer in order if sweep.ascending else reversed(order):
            for event in sweep.blocks[place]:
                self.put(event, place, layer)

    def put(self, event: Event, place: int | None, layer: int) -> None:
        """One event of the unit at ``place`` in the run, which is ``layer`` in the whole one."""
        kind, key, value = event
        if kind == BIRTH:
            new = len(self.out.made)
            self.alive[self._instance(key, place, layer)] = new
            made = self.out.made[new] = self.made(key, layer)
            self.out.events.append((BIRTH, new, made.size_bytes))
        elif kind == DEATH:
            self.end(self._instance(key, place, layer), key, value)
        else:
            self.mark(event, place, layer)

    def end(self, instance: tuple[int, int, int], key: int, size: int) -> None:
        """A storage of the whole run ends."""
        found = self.alive.pop(instance, None)
        if found is not None:
            self.out.events.append((DEATH, found, self.out.made[found].size_bytes))
        elif size > SCALAR or key in self.home:
            raise Irregular(f"{self.log.made[key].op} ends twice or before it begins")
        # What is left was made apart from the units, one for each: only the first is known.

    def _instance(self, key: int, place: int | None, layer: int) -> tuple[int, int, int]:
        """The storage of the whole run that an event of the short one stands for."""
        home, cut = self.home.get(key), self.cut
        if home is None:
            return (OUTSIDE, key, 0)
        if place is not None and abs(home.place - place) <= cut.period:
            return (home.sweep, home.number, layer + home.place - place)
        if home.place < cut.first:
            return (home.sweep, home.number, home.place)
        if home.place >= cut.after:
            return (home.sweep, home.number, home.place + cut.missing)
        raise Irregular(f"a tensor of {self.log.made[key].op} is freed apart from its unit")
