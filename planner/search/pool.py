"""Judged plans worth remembering: the best of each tier, and the front of dollars and seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.cost import run_hours
from planner.plan import Plan
from planner.search.found import Name
from planner.search.judging import FIGURES, Array, Arrays, Combinations, Rows
from planner.search.tiers import NAMES, SEVERITY, admitted, best, gives_up, order
from planner.search.wish import Wish

MOST_GIVEN_UP = sum(SEVERITY.values())
REMEMBERED = 60
"""Candidates of each tier, one a combination and number of GPUs."""
SIZED = ("gpus", "micro_batch_size", "response_tokens")
KEPT = tuple(name for name in FIGURES if name not in ("combination", "place", "phase_bytes"))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A judged plan: what it changes, where the goal puts it, and its figures."""

    changes: Mapping[str, Any]
    line: tuple[float, ...]
    figures: Mapping[str, float]


class Pool:
    """Takes judged rows; remembers what an answer may need."""

    def __init__(self, plan: Plan, wish: Wish, own: Plan) -> None:
        """``plan`` is what changes are made to, ``own`` the person's, which they are counted of."""
        self.plan, self.wish, self.own = plan, wish, own
        self.best: dict[Name, list[Candidate]] = {name: [] for name in NAMES}
        self.firsts: dict[Name, dict[tuple[Any, ...], Candidate]] = {name: {} for name in NAMES}
        """The best of each kind of machine."""
        self._fronts: dict[int, list[Candidate]] = {}
        """Of dollars and hours, by how much the plans give up."""
        self.misses: list[Candidate] = []
        self.plans = 0
        self.combinations = 0

    def take(self, rows: Rows, combinations: Combinations, arrays: Arrays) -> None:
        """Take the rows of these combinations over these arrays into account."""
        self.plans += len(rows)
        self.combinations += len(np.unique(rows.combination))
        if not len(rows):
            return
        severity, changed, sizes = self.of(rows, combinations, arrays)
        for name in NAMES:
            (fit,) = np.nonzero(admitted(name, rows, self.wish, self.plan.steps))
            if not len(fit):
                continue
            some = {key: values[fit] for key, values in sizes.items()}
            lines = order(name, self.wish, rows.at(fit), some, severity[fit], changed[fit])
            self._keep(name, rows, fit, lines, combinations, arrays)
            if name == "balanced":
                for level in np.unique(severity[fit]):
                    some_fit = fit[severity[fit] == level]
                    self._front(int(level), rows, some_fit, combinations, arrays)
        if not self.best["aggressive"]:
            self._miss(rows, severity, changed, combinations, arrays)

    def of(
        self, rows: Rows, combinations: Combinations, arrays: Arrays
    ) -> tuple[Array, Array, dict[str, Array]]:
        """What rows give up, how many fields they change, and their sizes."""
        values = _values(rows.place, arrays)
        own = {name: getattr(self.own, name) for name in self.plan.__class__.model_fields}
        base = dict(self.plan)
        differing = {name for name in base if base[name] != own[name]} - set(arrays)
        gives, counts = [], []
        for changes in combinations:
            gives.append(gives_up(self.own, changes))
            moved = sum(value != own[name] for name, value in changes.items() if name not in arrays)
            counts.append(moved + len(differing - set(changes)))
        severity = np.asarray(gives)[rows.combination]
        changed = np.asarray(counts)[rows.combination]
        for name, array in values.items():
            changed = changed + (array != own[name])
        if "response_tokens" in values:
            shorter = values["response_tokens"] < self.own.response_tokens
            severity = severity + SEVERITY["response_tokens"] * shorter
        moved = [changes.get("gpu", base["gpu"]) != own["gpu"] for changes in combinations]
        sizes = {"moved": np.asarray(moved)[rows.combination]}
        for name in SIZED:
            each = np.asarray([changes.get(name, base[name]) for changes in combinations])
            sizes[name] = values.get(name, each[rows.combination])
        return severity, changed, sizes

    def _keep(
        self,
        name: Name,
        rows: Rows,
        fit: Array,
        lines: Array,
        combinations: Combinations,
        arrays: Arrays,
    ) -> None:
        ranked = best(lines)
        first = tuple(map(float, lines[ranked[0]]))
        self._first(name, candidate(rows, int(fit[ranked[0]]), first, combinations, arrays))
        own = rows.combination[fit][ranked].astype(np.int64)
        if "gpus" in arrays:  # a script may say a combination on fewer, or on more of them
            counts = _values(rows.place[fit][ranked], arrays)["gpus"]
            own = own * (1 + int(counts.max())) + counts
        _, firsts = np.unique(own, return_index=True)
        for which in ranked[np.sort(firsts)[:REMEMBERED]]:
            line = tuple(map(float, lines[which]))
            if len(self.best[name]) >= REMEMBERED and line >= self.best[name][-1].line:
                break
            found = candidate(rows, int(fit[which]), line, combinations, arrays)
            self.best[name].append(found)
        self.best[name] = _first_of_each(sorted(self.best[name], key=lambda one: one.line))

    def _first(self, name: Name, one: Candidate) -> None:
        apart = ("gpu", "rollout_gpus", *(("gpus",) if one.changes.get("rollout_gpus") else ()))
        machine = tuple(one.changes.get(field) for field in apart)
        known = self.firsts[name].get(machine)
        if known is None or one.line < known.line:
            self.firsts[name][machine] = one

    def front(self, most: int = MOST_GIVEN_UP) -> list[Candidate]:
        """The plans that no other beats in dollars and hours alike, cheapest first.

        Args:
            most: that they may give up (:func:`planner.search.tiers.gives_up`).
        """
        every = [
            one for level in sorted(self._fronts) for one in self._fronts[level] if level <= most
        ]
        return _leading(every)

    def _front(
        self, level: int, rows: Rows, fit: Array, combinations: Combinations, arrays: Arrays
    ) -> None:
        hours = run_hours(rows.seconds, rows.between_seconds, self.plan.steps)
        known = fit[np.isfinite(rows.usd[fit]) & np.isfinite(hours[fit])]
        found = self._fronts.get(level, [])
        for which in known[_cheapest_or_fastest(rows.usd[known], hours[known])]:
            line = (float(rows.usd[which]), float(hours[which]))
            found.append(candidate(rows, int(which), line, combinations, arrays))
        self._fronts[level] = _leading(found)

    def _miss(
        self,
        rows: Rows,
        severity: Array,
        changed: Array,
        combinations: Combinations,
        arrays: Arrays,
    ) -> None:
        over = np.maximum(rows.device_bytes - rows.budget_bytes, 0) / rows.budget_bytes
        blocked = over == 0
        lines = np.stack([blocked, over, severity, changed], axis=1).astype(float)
        for which in best(lines)[:3]:
            line = tuple(map(float, lines[which]))
            self.misses.append(candidate(rows, int(which), line, combinations, arrays))
        self.misses = _first_of_each(sorted(self.misses, key=lambda one: one.line))[:REMEMBERED]


def _first_of_each(ranked: Sequence[Candidate]) -> list[Candidate]:
    seen: dict[tuple[tuple[str, Any], ...], Candidate] = {}
    for one in ranked:
        seen.setdefault(tuple(sorted(one.changes.items())), one)
    return list(seen.values())[:REMEMBERED]


def _leading(every: list[Candidate]) -> list[Candidate]:
    if not every:
        return []
    usd, run = np.asarray([one.line for one in every]).T
    return [every[which] for which in _cheapest_or_fastest(usd, run)]


def _cheapest_or_fastest(usd: Array, seconds: Array) -> Array:
    """Numbers of the rows that no other beats in dollars and in seconds alike, cheapest first."""
    ranked = np.lexsort((seconds, usd))
    least = np.minimum.accumulate(seconds[ranked])
    first = np.concatenate(([True], seconds[ranked][1:] < least[:-1]))
    return ranked[first[: len(ranked)]]


def _values(place: Array, arrays: Arrays) -> dict[str, Array]:
    shape = tuple(len(values) for values in arrays.values())
    where = np.unravel_index(place, shape) if shape else ()
    return {
        name: np.asarray(values)[along]
        for (name, values), along in zip(arrays.items(), where, strict=True)
    }


def candidate(
    rows: Rows,
    which: int,
    line: tuple[float, ...],
    combinations: Combinations,
    arrays: Arrays,
) -> Candidate:
    """One row, with what it changes of the searched plan."""
    sizes = _values(rows.place[which : which + 1], arrays)
    changes = {
        **combinations[rows.combination[which]],
        **{name: values[0].item() for name, values in sizes.items()},
    }
    figures = {name: float(getattr(rows, name)[which]) for name in KEPT}
    return Candidate(changes, line, figures)
