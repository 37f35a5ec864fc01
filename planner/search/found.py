"""What a search answers with: three plans, the front, misses, ties and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.chosen import Change
from planner.search.wish import Wish
from planner.units import read_listed

Name = Literal["conservative", "balanced", "aggressive", "knee"]
"""Three by their margin; and the plan at the knee of the Pareto front, where it is another."""
Checked = Literal["unchecked", "agrees", "demoted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """A plan to launch: what it is, what it changes, why it, and what it gives up.

    ``also`` are the riskier ones that are the same plan: less margin buys nothing there.
    ``checked`` is ``unchecked`` until its dry run is held against it (:mod:`planner.search.check`).
    """

    name: Name
    also: tuple[Name, ...] = ()
    plan: Plan
    footprint: Footprint
    why: str
    differences: tuple[Change, ...]
    """From the person's plan, in the order of the fields."""
    trade_offs: tuple[str, ...]
    """What the result of training may lose, a sentence each."""
    launch: str
    """How it is run: by which framework's script, or why by none."""
    checked: Checked = "unchecked"
    reason: str = ""
    """Why a dry run demoted it, or says nothing of it."""

    @property
    def names(self) -> tuple[Name, ...]:
        """All that it is, the safest first."""
        return (self.name, *self.also)

    @property
    def called(self) -> str:
        """The same in words: ``conservative and balanced``."""
        return read_listed(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A plan that no other one beats in dollars and in hours alike, with their intervals."""

    changes: Mapping[str, Any]
    """Against the person's plan."""
    usd: float
    low_usd: float
    high_usd: float
    seconds: float
    """Of a step."""
    low_seconds: float
    high_seconds: float
    hours: float
    """Of the run, what comes before and between its steps included."""
    low_hours: float
    high_hours: float
    gpu: str
    gpus: int
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """A plan whose figure cannot be told from the winner's, and what else tells them apart."""

    of: Name
    changes: Mapping[str, Any]
    """Against the person's plan."""
    figure: str
    apart: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A plan that comes close, or what it would take: ``lacks`` says what is in the way."""

    changes: Mapping[str, Any]
    lacks: str
    device_bytes: int
    budget_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How much was looked at: valid plans that were judged, and combinations of categories."""

    plans: int
    combinations: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer. Without a plan that fits, ``recommendations`` is empty and ``misses`` say why.

    No two recommendations are the same plan.
    """

    plan: Plan
    wish: Wish
    recommendations: tuple[Recommendation, ...]
    same: str
    """Why there are fewer than three; empty where each margin has a plan of its own."""
    knee: str
    """Where the Pareto front of cost and time bends; empty without one."""
    front: tuple[Point, ...]
    misses: tuple[Miss, ...]
    ties: tuple[Tie, ...]
    left_out: tuple[str, ...]
    judged: Judged
