"""Pairs of one machine and scenario that wait to be judged, the most promising first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.cost import gpu_hours, price_of
from planner.plan.altered import altered
from planner.search.judging import Array, Arrays, Rows
from planner.search.pairs import paired
from planner.search.space import Option
from planner.search.tiers import NAMES, admitted, best, order

if TYPE_CHECKING:
    from planner.search.staged import Staged

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
