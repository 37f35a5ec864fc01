"""Which values of an axis are no plan, and by what rule. Imports no Streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from planner.plan import Plan
from planner.plan.rules import rules_of
from planner.sweeps.grid import Grid


class Broken(NamedTuple):
    """A rule's sentence, and how many values it refuses that none before it does."""

    why: str
    values: int


def broken(plan: Plan, field: str, values: Sequence[int]) -> tuple[Broken, ...]:
    """What refuses values of a field, the rule that refuses most first."""
    grid = Grid(plan, {field: values})
    left = np.ones(len(values), dtype=bool)
    found = []
    for rule in rules_of(plan):
        refused = left & np.asarray(rule.broken(grid), dtype=bool)
        if refused.any():
            left &= ~refused
            first = values[int(refused.argmax())]
            found.append(Broken(rule.message.format(value=first), int(refused.sum())))
    return tuple(sorted(found, key=lambda one: -one.values))
