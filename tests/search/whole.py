"""Every combination of a space judged, without stages: what the staged search is held against."""

from __future__ import annotations

from itertools import product
from typing import Any

from planner.plan import Plan
from planner.search.judging import rows_of
from planner.search.options import space_of
from planner.search.pool import Pool
from planner.search.space import merged
from planner.search.staged import Staged
from planner.search.wish import Wish


def staged(plan: Plan, wish: Wish) -> Staged:
    """The search's own way."""
    space = space_of(plan, wish)
    found = Staged(space, wish, Pool(space.plan, wish, plan), rows_of)
    found.run()
    return found


def whole(plan: Plan, wish: Wish) -> Staged:
    """All of the space, in one go."""
    space = space_of(plan, wish)
    found = Staged(space, wish, Pool(space.plan, wish, plan), rows_of)
    scenarios: list[dict[str, Any]] = [{}]
    for name, values in space.scenario.items():
        scenarios = [{**one, name: value} for one in scenarios for value in values]
    for scenario in scenarios:
        options = [
            {**merged(each), **scenario}
            for each in product(space.machines, *space.trainer, *space.engine)
        ]
        combinations = space.allowed(options, scenario)
        for sizes in space.trainer_sizes:
            mesh = {**sizes, **space.engine_sizes}
            found.pool.take(rows_of(space.plan, combinations, mesh, None), combinations, mesh)
    return found
