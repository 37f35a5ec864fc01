"""Where an axis meets a limit: the card, host RAM, the engine's share; and what makes no plan.

Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd

from planner.plan import Plan
from planner.plan.rules import rules_of
from planner.sweeps.grid import Grid

CARD, HOST, SHARE = "GPU full", "host RAM full", "vLLM's reservation too small"


class Stretch(NamedTuple):
    """Neighbouring plans that one limit stops; ``start`` and ``end`` lie between neighbours."""

    limit: str
    phase: str
    first: int
    last: int
    start: float
    end: float

    @property
    def label(self) -> str:
        """The limit, and the phase in which the card is full."""
        return f"{self.limit} in {self.phase}" if self.limit == CARD else self.limit


def limits(table: pd.DataFrame, plan: Plan) -> pd.Series[str]:
    """The limit that each plan of a sweep meets, the card's first; empty where it runs."""
    met = pd.Series("", index=table.index, dtype=object)
    stopped = table["verdict"].astype(str) == "out of memory"
    met[stopped] = SHARE  # all that stops a plan besides what follows
    if plan.host_ram_per_node:
        met[stopped & (table["host_bytes"] > plan.host_ram_per_node)] = HOST
    met[stopped & (table["device_bytes"] > table["budget_bytes"])] = CARD
    return met


def stretches(table: pd.DataFrame, field: str, met: pd.Series[str]) -> list[Stretch]:
    """The stretches of an axis at which a limit is met; rows are possible plans in order."""
    rows = list(zip(table[field], met, table["worst_phase"].astype(str), strict=True))
    found: list[Stretch] = []
    low, high = (float(rows[place][0]) for place in (0, -1)) if rows else (1.0, 1.0)
    borders = [low, *(sqrt(one[0] * other[0]) for one, other in pairwise(rows)), high]
    at = 0
    for limit, group in groupby(rows, key=lambda row: row[1]):
        own = list(group)
        start, at = at, at + len(own)
        if limit:
            # The plan nearest to one that runs is where the limit is met.
            meets = own[-1] if start == 0 and at < len(rows) else own[0]
            ends = int(own[0][0]), int(own[-1][0]), borders[start], borders[at]
            found.append(Stretch(limit, meets[2], *ends))
    return found


def words(found: list[Stretch], lowest: int, highest: int, most: int = 3) -> str:
    """The stretches in a sentence; the widest where they are many."""
    widest = sorted(found, key=lambda one: one.start / one.end)[:most]
    widest.sort(key=lambda one: one.first)
    said = "; ".join(f"{one.label} {_range(one, lowest, highest)}" for one in widest)
    rest = len(found) - len(widest)
    return said + (f"; and {rest} shorter stretches" if rest > 0 else "")


def _range(one: Stretch, lowest: int, highest: int) -> str:
    if one.first == one.last:
        return f"at {one.first:,}"
    if one.last >= highest:
        return f"from {one.first:,} on" if one.first > lowest else "everywhere"
    if one.first <= lowest:
        return f"up to {one.last:,}"
    return f"from {one.first:,} to {one.last:,}"


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
