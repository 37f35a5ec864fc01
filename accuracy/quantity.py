"""Which number of an estimate a published figure is compared with.

Every function gives an :class:`Answer` from a plan. What a plan cannot say, but the
run's source does, is an :class:`Addition`: its bytes come from the planner's formulas
and settings that the source states, and it stands beside the estimate, never in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from planner.estimate import phase_plans
from planner.phases.scene import Scene, scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.term import Instant, Term
from planner.totals.levels import Adder

Level = Literal["requested", "allocated", "reserved", "device"]

UPDATE = ("policy forward", "policy backward", "optimizer step")
"""Phases of a training step on a trainer's GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Bytes (negative for what is not there) that no field of a plan expresses, and why."""

    bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The estimate's number, where it peaks, and what stands beside it."""

    bytes: int
    where: str
    additions: tuple[Addition, ...] = ()
    stages: tuple[tuple[str, int], ...] = ()
    variants: tuple[tuple[str, int], ...] = ()
    """What the same plan gives with one setting otherwise, in words and bytes."""

    @property
    def completed_bytes(self) -> int:
        """The estimate with its additions."""
        return self.bytes + sum(addition.bytes for addition in self.additions)


def scene(plan: Plan) -> Scene:
    """The scene of a plan, from which its phases are made."""
    return scene_of(plan, facts_of(plan))


def peak(
    plan: Plan,
    level: Level,
    phases: Sequence[str] | None = UPDATE,
    *,
    without: Callable[[Term], bool] = lambda term: False,
    additions: tuple[Addition, ...] = (),
    variants: tuple[tuple[str, int], ...] = (),
) -> Answer:
    """The highest instant of some phases (all of the trainer's when None).

    ``without`` leaves terms out of every instant. Reserved and device bytes are those of
    the instant itself; what other phases left in the cache is another instant's number.
    """
    adder = Adder(plan.expandable_segments)
    best = Answer(bytes=-1, where="")
    for phase in phase_plans(scene(plan)):
        if phase.rank != "trainer" or (phases is not None and phase.name not in phases):
            continue
        for instant in phase.instants:
            kept = tuple(term for term in instant.everything if not without(term))
            totals = adder.totals(Instant(name=instant.name, terms=kept))
            size = int(getattr(totals, level))
            if size > best.bytes:
                best = Answer(bytes=size, where=f"{phase.name}: {instant.name}")
    return Answer(bytes=best.bytes, where=best.where, additions=additions, variants=variants)


def not_compiled(plan: Plan, level: Level) -> tuple[tuple[str, int], ...]:
    """The same plan with eager layers, where it compiles them."""
    if not plan.compile:
        return ()
    return (("layers not compiled", peak(plan.changed(compile=False), level).bytes),)


def named(plan: Plan, phase: str, name: str, role: str) -> int:
    """Bytes on the GPU of a role's terms of one name, at the first instant of a phase."""
    first = next(p for p in phase_plans(scene(plan)) if p.name == phase).instants[0]
    return sum(
        int(term.bytes)
        for term in first.everything
        if term.name == name and term.role == role and not term.host
    )
