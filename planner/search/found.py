"""What a search answers with: three plans, the front, misses, ties and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.chosen import Change
from planner.search.wish import Wish

Name = Literal["conservative", "balanced", "aggressive"]
Checked = Literal["unchecked", "agrees", "demoted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """A plan to launch: what it is, what it changes, why it, and what it gives up.

    ``checked`` is ``unchecked`` until its dry run is held against it (:mod:`planner.search.check`).
    """

    name: Name
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
    """How much was looked at: valid plans that were judged, and combinations of categories.

    ``reach`` are the plans that those stand for: every layout of the trainer with every engine,
    over all sizes and machines, whether or not the rules allow it.
    """

    plans: int
    combinations: int
    reach: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer. Without a plan that fits, ``recommendations`` is empty and ``misses`` say why."""

    plan: Plan
    wish: Wish
    recommendations: tuple[Recommendation, ...]
    front: tuple[Point, ...]
    misses: tuple[Miss, ...]
    ties: tuple[Tie, ...]
    left_out: tuple[str, ...]
    judged: Judged
