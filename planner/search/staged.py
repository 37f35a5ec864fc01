"""The search itself: trainers, engines, the pairs of both, and single edits of the best.

1. Every layout of the trainer beside one engine, and every engine beside one trainer, on the plan's
   own machine. Further ones are first tried with the best of it and its leanest trainers; on those
   that come near the best so far, whatever no other layout was as good as in everything.
2. Pairs that the two leave possible, those first that the goal is expected to put first, until no
   pair left is expected to be better than the best that was judged.
3. Single edits of each tier's best, until none is better.
4. The numbers of GPUs and the lengths between those that were tried, beside each tier's best: of
   1 and 2 again, with the layouts that no other one was as good as; and single edits again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from planner.launch.export import obstacles
from planner.plan.altered import altered
from planner.plan.facts import facts_of, holding
from planner.search.found import Name
from planner.search.judging import Arrays, Judge, Rows
from planner.search.pairs import Groups, Queue, figures_of, undominated
from planner.search.pool import Candidate, Pool
from planner.search.space import Option, Options, Sizes, Space, merged
from planner.search.tiers import FINER, NAMES, behind, between, beyond, sides
from planner.search.wish import Wish
from planner.speeds import Speeds

Progress = Callable[[str, float], None]

AT_FIRST = (8, 2)
"""Pairs of each tier that are judged before any is compared: where the best is foreseen, and in
each other scenario."""
AT_ONCE = 32
"""Pairs that are judged together after that."""
MOST_PAIRS = 1200
"""Pairs of one machine that are judged at most; what is left then is said."""
FEW = 4
"""Further machines below which each is looked at in full."""
EDITS = 8
"""Rounds of single edits."""
DIVIDED = 10
"""Times that a gap between two lengths is halved: 65,536 tokens, down to 128."""


class Staged:
    """One search; :meth:`run` fills its pool."""

    def __init__(
        self,
        space: Space,
        wish: Wish,
        pool: Pool,
        judge: Judge,
        speeds: Speeds | None = None,
        progress: Progress = lambda doing, share: None,
    ) -> None:
        self.space, self.wish, self.pool, self.judge = space, wish, pool, judge
        self.speeds, self.progress = speeds, progress
        self.left: list[str] = []
        self.machines: Options = space.machines
        """Those that single edits may move to."""
        self._lean: Option = {}
        self._tried: list[Option] = []
        """Plans whose single edits were tried."""
        self.trainers: list[Option] = [merged(each) for each in product(*space.trainer)]
        self.engines: list[Option] = [merged(each) for each in product(*space.engine)]

    def run(self) -> None:
        """Judge what the space holds."""
        own, *others = self.machines
        self.progress("Estimating plans", 0.0)
        self._machine(own, self.space.scenario, self.space.trainer_sizes)
        near = self._near(others)
        for number, machine in enumerate(near):
            self.progress(
                f"Estimating plans on {self._called(machine)}", 0.3 + 0.6 * number / len(near)
            )
            self._machine(machine, self.space.scenario, self.space.trainer_sizes)
        self.progress("Trying single changes to the best", 0.9)
        self._edits()
        self._finer()

    def _near(self, others: Sequence[Option]) -> Sequence[Option]:
        """The further machines that may still come to lead, after a first try of each."""
        if self.wish.goal == "fit" and others and self.winner("balanced"):
            self.left.append("Other GPUs: the plan fits on yours.")
            self.machines = self.machines[:1]
            return ()
        if len(others) < FEW or not self.winner("aggressive"):
            return others
        for number, machine in enumerate(others):
            self.progress(f"First try on {self._called(machine)}", 0.3 * number / len(others))
            self._try(machine)
        leading = [one for name in NAMES for one in self._leading(name, beyond)]
        places = [self._place(one) for one in leading]
        far = dict.fromkeys(self._called(one) for one in others if one not in places)
        if far:
            self.left.append(
                f"Most settings on {', '.join(far)}: a first try was over 1.5 times as slow or "
                "expensive as the best plan."
            )
        return [one for one in others if one in places]

    def _try(self, machine: Option) -> None:
        """The best layouts so far and the leanest trainer, on one further machine."""
        space = self.space
        best = [one.changes for name in NAMES if (one := self.winner(name)) is not None]
        lean = [{**self._lean, **option} for option in space.engine[0]]
        for mesh in space.trainer_sizes:
            arrays = {**space.scenario, **dict([*mesh.items()][:1]), **space.engine_sizes}
            fixed = {*arrays, *(name for one in space.machines for name in one)}
            tried = [{**without(one, fixed), **machine} for one in (*best, *lean)]
            self.judged(space.allowed(tried, machine), without(arrays, machine))

    def _called(self, machine: Option) -> str:
        return facts_of(altered(self.space.plan, machine)).gpu.name

    def judged(self, combinations: Sequence[Option], arrays: Arrays) -> Rows:
        """The rows of combinations of one card, which the pool takes as well."""
        speeds = self.speeds
        if combinations and "gpu" in combinations[0]:
            speeds = holding(speeds, altered(self.space.plan, combinations[0]))
        rows = self.judge(self.space.plan, combinations, arrays, speeds)
        self.pool.take(rows, combinations, arrays)
        return rows

    def _machine(self, machine: Option, over: Sizes, trainer_sizes: Sequence[Sizes]) -> None:
        space = self.space
        scenario = {n: v for n, v in over.items() if n not in machine}
        beside = {**machine, **self._plain_engine()}
        trainers = space.each([{**one, **beside} for one in self.trainers], machine)
        meshes = [{**scenario, **sizes} for sizes in trainer_sizes]
        judged = [self.judged([c for c, _ in trainers], mesh) for mesh in meshes]
        lead = self._leanest(judged[0], meshes[0], scenario)
        if lead is None:
            return
        alone = without(trainers[lead][0], space.engine_fields)
        self._lean = self._lean or alone
        both = space.each([{**alone, **machine, **one} for one in self.engines], machine)
        engines = [(c, {k: v for k, v in asked.items() if k not in alone}) for c, asked in both]
        if len(engines) <= 1 and not space.engine_sizes:
            return
        mesh = {**scenario, **space.engine_sizes}
        engine_rows = self.judged([c for c, _ in engines], mesh)
        queues: list[Queue] = []
        for number, fixed in enumerate(_scenarios(scenario)):
            base = _of(judged[0], number, meshes[0], scenario)
            least = base.place % _inner(meshes[0], scenario) == 0
            base = base.at((base.combination == lead) & least)
            beside_one = _of(engine_rows, number, mesh, scenario)
            if not len(base) or not len(beside_one):
                continue
            changed = int(self.pool.of(base, [c for c, _ in trainers], meshes[0])[1][0])
            groups = Groups(beside_one, base)
            some, more = self._best_of(beside_one, groups.more, [c for c, _ in engines], mesh)
            for which, (rows, own_mesh) in enumerate(zip(judged, meshes, strict=True)):
                own = _of(rows, number, own_mesh, scenario)
                if not len(own):
                    continue
                kept, held = self._best_of(own, groups.of(own), [c for c, _ in trainers], own_mesh)
                queues.append(
                    Queue(
                        self,
                        {**machine, **fixed},
                        {**trainer_sizes[which], **space.engine_sizes},
                        (kept, held, [c for c, _ in trainers], own_mesh),
                        (some, more, [c for c, _ in engines], mesh),
                        base,
                        changed,
                        [one for _, one in trainers],
                        [one for _, one in engines],
                    )
                )
        self._pairs(queues)
        if machine == space.machines[0] and over is space.scenario and queues:
            self._keep(queues, trainers, engines)

    def _plain_engine(self) -> dict[str, Any]:
        """The engine that trainers are judged beside: the plan's own, on one GPU if it may be."""
        one = [
            option
            for options in self.space.engine
            for option in options
            if option.get("rollout_tensor_parallel") == 1
        ]
        return dict(one[0]) if one else {}

    def _leanest(self, rows: Rows, mesh: Arrays, scenario: Arrays) -> int | None:
        """The trainer with the lowest peak at its least sizes, of those valid most often."""
        least = rows.at(rows.place % _inner(mesh, scenario) == 0)
        if not len(least):
            return None
        often = np.bincount(least.combination)[least.combination]
        peak = np.where(often == often.max(), least.device_bytes, np.iinfo(np.int64).max)
        return int(least.combination[np.argmin(peak)])

    def _best_of(
        self, rows: Rows, sizes: Any, combinations: Sequence[Option], mesh: Arrays
    ) -> tuple[Rows, Any]:
        """The rows that no other one is as good as in everything, and their sizes."""
        severity, changed, own = self.pool.of(rows, combinations, mesh)
        further = [severity]
        if self.wish.goal == "largest-batch":
            further.append(-own["micro_batch_size"])
        blocked = (rows.code == 2) & (rows.device_bytes <= rows.budget_bytes)
        near = np.argsort(changed, kind="stable")
        kept = near[undominated(figures_of(rows, sizes, blocked, *further)[near])]
        return rows.at(kept), sizes[kept]

    def _pairs(self, queues: Sequence[Queue]) -> None:
        leading: set[int] = set()
        for name in NAMES:
            lines = [(queue.next(name), number) for number, queue in enumerate(queues)]
            known = [(line, number) for line, number in lines if line is not None]
            leading.update(number for _, number in sorted(known)[:1])
        done = sum(
            queue.judge(AT_FIRST[number not in leading]) for number, queue in enumerate(queues)
        )
        while done < MOST_PAIRS:
            ranked = [
                (line, number, name)
                for number, queue in enumerate(queues)
                for name in NAMES
                if (line := queue.next(name)) is not None
                and (not self.pool.best[name] or line < self.pool.best[name][0].line[: len(line)])
            ]
            if not ranked:
                return
            for _, number, name in sorted(ranked)[:3]:
                done += queues[number].judge(AT_ONCE, name)
        self.left.append(
            f"Pairs of trainer and vLLM settings beyond the {MOST_PAIRS:,} most promising ones."
        )

    def _keep(
        self,
        queues: Sequence[Queue],
        trainers: Sequence[tuple[Option, Option]],
        engines: Sequence[tuple[Option, Option]],
    ) -> None:
        """What further machines are tried with."""
        if len(self.space.machines) > 1:
            self.left.append(
                "On other GPUs: settings that on your GPU are slower and take more memory than "
                "others."
            )
        own = set(self._plain_engine()) | set(self.space.machines[0])
        self.trainers = [
            without(trainers[at][1], own) for at in sorted({t for q in queues for t in q.trainers})
        ]
        self.engines = [engines[at][1] for at in sorted({e for q in queues for e in q.engines})]

    # Edits

    def _edits(self) -> None:
        """Single edits of each tier's best, until each tier's best is one whose edits were tried.

        Those of all tiers are judged together: most of what they are made of is the same.
        """
        asked = self.space.fields
        for _ in range(EDITS):
            found = [self.winner(name) for name in NAMES]
            # What a script made of it is asked for again, or no more: it depends on the rest.
            best = [
                {name: value for name, value in one.changes.items() if name in asked}
                for one in found
                if one is not None
            ]
            new = [one for at, one in enumerate(best) if one not in (*self._tried, *best[:at])]
            if not new:
                return
            self._edit(new)
            self._tried += new

    def _edit(self, plans: Sequence[Option]) -> None:
        """Every single edit of these, over all arrays of their sizes."""
        space = self.space
        blocks: list[Options] = [
            *space.trainer,
            *space.engine,
            self.machines,
            *(tuple({name: v} for v in values) for name, values in space.scenario.items()),
        ]
        near: list[Option] = [*plans]
        for options in blocks:
            names = {name for option in options for name in option} - set(space.scenario)
            plain = {name: getattr(space.plan, name) for name in names}
            near += [{**plan, **plain, **option} for plan in plans for option in options]
        combinations = space.allowed(near, {})
        for card in {changes.get("gpu") for changes in combinations}:
            of_card = [changes for changes in combinations if changes.get("gpu") == card]
            for mesh in space.trainer_sizes:
                self.judged(of_card, {**mesh, **space.engine_sizes})

    # Between the grid's values

    def _finer(self) -> None:
        """Values between those that were judged, beside each tier's best, while there are any.

        Every machine whose best is near it is looked at, so that a further one hides none.
        """
        goal, space = self.wish.goal, self.space
        known = {n: sorted(values) for n, values in space.scenario.items() if sides(goal, n)}
        for _ in range(DIVIDED if known else 0):
            self.progress("Trying values in between", 0.95)
            best = [one for name in NAMES for one in self._leading(name, behind)]
            places = [self._place(one) for one in best]
            chosen = {name: {self._value(one, name) for one in best} for name in space.scenario}
            found = False
            for name, values in known.items():
                some = between(values, chosen[name], FINER[name], sides(goal, name))
                new = tuple(value for value in some if space.has(name, value))
                found = found or bool(new)
                known[name] = sorted({*values, *some})
                others = {n: tuple(sorted(c)) for n, c in chosen.items() if n != name}
                for at, place in enumerate(places):
                    if new and place not in places[:at] and name not in place:
                        self._machine(place, {name: new, **others}, self._sizes(name))
            if not found:
                break
        self._edits()

    def _leading(self, name: Name, worst_of: Callable[[str, float], float]) -> list[Candidate]:
        """A tier's best, and that of each other machine which may still come to lead."""
        winner = self.winner(name)
        if winner is None:
            return []
        first = 0 if name == "aggressive" else 1
        worst = (*winner.line[:first], worst_of(self.wish.goal, winner.line[first]))
        others = (one for one in self.pool.firsts[name].values() if one.line[: first + 1] <= worst)
        return [winner, *others]

    def _sizes(self, name: str) -> Sequence[Sizes]:
        """A trainer's sizes between two values of another: a longer response fits at the least.

        Single edits find more rows of a forward again.
        """
        every = self.space.trainer_sizes
        if name != "response_tokens":
            return every
        return [{size: values[:1] for size, values in mesh.items()} for mesh in every]

    def _value(self, one: Candidate, name: str) -> int:
        return int(one.changes.get(name, getattr(self.space.plan, name)))

    def _place(self, one: Candidate) -> Option:
        """The machine that a candidate is of."""
        plan, changes = self.space.plan, one.changes
        own = [
            each
            for each in self.space.machines
            if all(changes.get(n, getattr(plan, n)) == value for n, value in each.items())
        ]
        return max(own, key=len)

    def winner(self, name: Name) -> Candidate | None:
        """The best of a tier that its framework's script can say."""
        return next((one for one in self.pool.best[name] if self.expressible(one.changes)), None)

    def expressible(self, changes: Option) -> bool:
        """Whether the plan is one, and its framework's script can say it."""
        plan = self.space.made(changes)
        if plan is None:
            return False
        return not self.space.framework or not obstacles(plan, self.space.framework)


def without(changes: Option, fields: Collection[str]) -> dict[str, Any]:
    """The changes of all other fields."""
    return {name: value for name, value in changes.items() if name not in fields}


def _scenarios(scenario: Arrays) -> list[dict[str, Any]]:
    """Each scenario's fields, in the order of the arrays' rows."""
    return [dict(zip(scenario, values, strict=True)) for values in product(*scenario.values())]


def _inner(mesh: Arrays, scenario: Arrays) -> int:
    return prod(len(values) for name, values in mesh.items() if name not in scenario)


def _of(rows: Rows, number: int, mesh: Arrays, scenario: Arrays) -> Rows:
    """The rows of one scenario."""
    return rows.at(rows.place // _inner(mesh, scenario) == number)
