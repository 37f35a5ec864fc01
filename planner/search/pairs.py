"""Trainer and engine side by side: which pairs are worth judging, and in which order.

How training is laid out and how the engine is decide different phases, so a plan's seconds and
bytes are about those of its trainer beside any engine, plus what its engine differs from that one
beside any trainer. That sum only orders and leaves out: every plan that is answered with has been
judged whole (``tests/search`` holds the winner against every combination).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.cost import gpu_hours, price_of
from planner.plan.altered import altered
from planner.search.judging import Array, Arrays, Rows
from planner.search.space import Option
from planner.search.tiers import NAMES, admitted, best, order
from planner.totals.limits import MARGIN

if TYPE_CHECKING:
    from planner.search.staged import Staged

SECONDS = 0.001
"""Relative difference of seconds below which two settings are as fast."""
BYTES = 32 * 2**20
"""Difference of bytes below which two settings are as large."""


def undominated(figures: Array) -> Array:
    """Numbers of the rows that no other row is at most as large as in every column.

    Of equal rows the first is kept.
    """
    left = np.lexsort(figures.T[::-1])
    columns = [np.ascontiguousarray(column[left]) for column in figures.T]
    kept: list[int] = []
    while len(left):
        kept.append(int(left[0]))
        better = columns[0] < columns[0][0]
        for column in columns[1:]:
            better |= column < column[0]
        left = left[better]
        columns = [column[better] for column in columns]
    return np.asarray(sorted(kept), dtype=np.int64)


class Groups:
    """Phases in which one engine differs from another by the same bytes.

    A group needs what its largest phase needs, whatever the engine.
    """

    def __init__(self, engine: Rows, base: Rows) -> None:
        """``engine`` are rows beside one trainer, ``base`` the first of that trainer's."""
        self.phases = engine.phases
        more = engine.phase_bytes - _of_phases(base, self.phases)
        self.members: list[list[int]] = []
        for phase in range(len(self.phases)):
            for group in self.members:
                if np.abs(more[:, phase] - more[:, group[0]]).max(initial=0) <= 4 * BYTES:
                    group.append(phase)
                    break
            else:
                self.members.append([phase])
        self.more = np.stack([more[:, group[0]] for group in self.members], axis=1)
        """What each engine needs more than the base, a column for each group."""

    def of(self, rows: Rows) -> Array:
        """The most of each group's phases, a column each."""
        sizes = _of_phases(rows, self.phases)
        return np.stack([sizes[:, group].max(axis=1) for group in self.members], axis=1)


def _of_phases(rows: Rows, names: tuple[str, ...]) -> Array:
    where = [rows.phases.index(name) if name in rows.phases else -1 for name in names]
    found = rows.phase_bytes[:, where].copy()
    found[:, [at for at, one in enumerate(where) if one < 0]] = 0
    return found


def figures_of(rows: Rows, sizes: Array, *further: Array) -> Array:
    """What one setting can be better in than another, in steps that matter; less is better."""
    with np.errstate(divide="ignore", invalid="ignore"):
        times = [
            np.nan_to_num(np.floor(np.log(seconds) / SECONDS))
            for seconds in (rows.seconds, rows.between_seconds)
        ]
    steps = np.concatenate([sizes, rows.host_bytes[:, None]], axis=1) // BYTES
    return np.concatenate([np.stack([*further, *times], axis=1), steps], axis=1)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Trainer × engine: which rows meet, and what they are expected to be."""

    trainer: Array
    engine: Array
    rows: Rows


def paired(trainer: Rows, engine: Rows, base: Rows, held: Array, more: Array) -> Pairs:
    """Every trainer row beside every engine row.

    Args:
        trainer: rows beside one engine.
        engine: rows beside one trainer.
        base: the one row of that trainer beside that engine.
        held: bytes of each trainer row, and
        more: of each engine row, by :class:`Groups`.
    """
    t, e = (each.ravel() for each in np.indices((len(trainer), len(engine))))
    one, two = trainer.at(t), engine.at(e)

    def sums(name: str) -> Array:
        found: Array = getattr(one, name) + getattr(two, name) - getattr(base, name)[0]
        return found

    device = (held[t] + more[e]).max(axis=1)
    # Of the doubt only what both have is sure: a pair is left out for what it needs at least.
    doubt = np.minimum(one.high_bytes - one.device_bytes, two.high_bytes - two.device_bytes)
    # What keeps an engine from running whatever the trainer is: too small a share.
    blocked = (two.code == 2) & (two.device_bytes <= two.budget_bytes)
    return Pairs(
        t,
        e,
        replace(
            one,
            device_bytes=device,
            high_bytes=device + doubt,
            host_bytes=sums("host_bytes"),
            code=np.where(
                blocked | (device > one.budget_bytes), 2, device > MARGIN * one.budget_bytes
            ).astype(np.int8),
            seconds=sums("seconds"),
            low_seconds=sums("low_seconds"),
            high_seconds=sums("high_seconds"),
            between_seconds=sums("between_seconds"),
            low_between_seconds=sums("low_between_seconds"),
            high_between_seconds=sums("high_between_seconds"),
        ),
    )


Part = tuple[Rows, Array, Sequence[Option], Arrays]
"""Rows, their bytes by group of phases, what they change, and over which arrays."""
Pair = tuple[int, int]
Line = tuple[float, ...]


class Queue:
    """What trainers and engines leave possible; :meth:`judge` takes the next."""

    def __init__(
        self,
        search: Staged,
        machine: Option,
        sizes: Arrays,
        trainer: Part,
        engine: Part,
        base: Rows,
        changed: int,
        trainers: Sequence[Option],
        engines: Sequence[Option],
    ) -> None:
        """``base`` is where both parts meet, which changes so many fields.

        ``trainers`` and ``engines`` are the options that rows are numbered by.
        """
        self._search, self._machine, self._sizes = search, machine, sizes
        self._options = trainers, engines
        self.trainers = {int(number) for number in trainer[0].combination}
        self.engines = {int(number) for number in engine[0].combination}
        self._waiting: dict[str, list[tuple[Line, Pair]]] = {name: [] for name in NAMES}
        self._taken: set[Pair] = set()
        self._fill(trainer, engine, base, changed)

    def _fill(self, trainer: Part, engine: Part, base: Rows, of_base: int) -> None:
        pairs = paired(trainer[0], engine[0], base, trainer[1], engine[1])
        rows, search = self._priced(pairs.rows), self._search
        of_trainer = search.pool.of(trainer[0], *trainer[2:])
        of_engine = search.pool.of(engine[0], *engine[2:])
        severity = of_trainer[0][pairs.trainer]
        changed = of_trainer[1][pairs.trainer] + of_engine[1][pairs.engine] - of_base
        sizes = {name: values[pairs.trainer] for name, values in of_trainer[2].items()}
        both = np.stack(
            [trainer[0].combination[pairs.trainer], engine[0].combination[pairs.engine]], axis=1
        )
        for name in NAMES:
            (fit,) = np.nonzero(admitted(name, rows, search.wish, search.space.plan.steps))
            if not len(fit):
                continue
            some = {key: values[fit] for key, values in sizes.items()}
            lines = order(name, search.wish, rows.at(fit), some, severity[fit], changed[fit])
            ranked = best(lines)
            codes = both[fit][ranked] @ np.asarray([len(self._options[1]), 1])
            _, firsts = np.unique(codes, return_index=True)
            self._waiting[name] = [
                # Fields changed and bytes decide between plans that were judged, not these.
                (tuple(map(float, lines[at][:-2])), (int(both[fit[at], 0]), int(both[fit[at], 1])))
                for at in ranked[np.sort(firsts)]
            ]

    def _priced(self, rows: Rows) -> Rows:
        plan = altered(self._search.space.plan, self._machine)
        price = price_of(plan).per_gpu_hour
        if price is None:
            return rows
        usd, high_usd = (
            gpu_hours(plan, seconds, between, 0.0)[1] * price
            for seconds, between in (
                (rows.seconds, rows.between_seconds),
                (rows.high_seconds, rows.high_between_seconds),
            )
        )
        return replace(rows, usd=usd, high_usd=high_usd)

    def next(self, name: str) -> Line | None:
        """Where the goal is expected to put the best pair of a tier that is left."""
        waiting = self._waiting[name]
        while waiting and waiting[0][1] in self._taken:
            waiting.pop(0)
        return waiting[0][0] if waiting else None

    def judge(self, most: int, *names: str) -> int:
        """Judge the first pairs of each tier; how many."""
        taken: list[Pair] = []
        for name in names or NAMES:
            for _ in range(most):
                if self.next(name) is None:
                    break
                pair = self._waiting[name].pop(0)[1]
                self._taken.add(pair)
                taken.append(pair)
        trainers, engines = self._options
        space = self._search.space
        combinations = space.allowed(
            [{**trainers[t], **engines[e], **self._machine} for t, e in taken], self._machine
        )
        if combinations:
            self._search.judged(combinations, self._sizes)
        return len(taken)
