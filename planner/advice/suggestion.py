"""A suggestion: edits made to a plan, and every figure before and after."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from planner.advice.edits import COSTS, KEEPS, KINDS, Edit, Kind
from planner.advice.outcome import (
    SAME,
    WORTH_BYTES,
    Difference,
    Judge,
    Level,
    Outcome,
    Sign,
    outcome_of,
    seconds_between,
    usd_between,
)
from planner.plan import Plan, try_plan
from planner.plan.frameworks import framework_named
from planner.plan.loss import names_anew
from planner.totals.limits import worse
from planner.units import read_bytes, read_seconds

Read = Callable[[float], str]

Refused = Callable[[Plan], Collection[str]]
"""Fields of a plan that stand in the way of running it with its framework."""


def nothing(plan: Plan) -> Collection[str]:
    """No field stands in the way."""
    return ()


class PhaseChange(NamedTuple):
    """A phase before and after; None of a phase that only one of the plans has."""

    name: str
    before: Level | None
    after: Level | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Edits, and what they do to a plan."""

    edits: tuple[Edit, ...]
    before: Outcome
    after: Outcome
    settled: Mapping[str, Any] = field(default_factory=dict)
    """Fields that go along, since the framework's loop sets them by others."""

    @property
    def title(self) -> str:
        """Its edits in one line."""
        return "; ".join(edit.title for edit in self.edits)

    @property
    def changes(self) -> Mapping[str, Any]:
        """Field → value, of all its edits and what goes along."""
        return {**merged(self.edits), **self.settled}

    @property
    def kind(self) -> Kind:
        """The kind of its edits that asks most of a person."""
        return max((edit.kind for edit in self.edits), key=KINDS.index)

    @property
    def keeps(self) -> bool:
        """Whether the same weights train on the same responses with as many GPUs."""
        return self.kind in KEEPS

    @property
    def saved_bytes(self) -> int:
        """Of the peak; below zero where it adds."""
        return self.before.device_bytes - self.after.device_bytes

    @property
    def peak(self) -> Sign:
        """What it does to the peak: the one judgement by which an edit helps or has no effect.

        Within a hundredth or a quarter of a GiB, whichever is less, it stays.
        """
        saved = self.saved_bytes
        if abs(saved) < min(SAME * self.before.device_bytes, WORTH_BYTES):
            return "same"
        return "less" if saved > 0 else "more"

    @property
    def step_seconds(self) -> float | None:
        """Of a step after it."""
        return self.after.step_seconds

    @property
    def seconds_lost(self) -> float | None:
        """That a step takes longer; below zero where it is faster."""
        found = self.seconds
        return None if found.sign == "not known" else found.by

    @property
    def fits(self) -> bool:
        """Whether the plan fits after it."""
        return self.after.fits

    @property
    def worse(self) -> bool:
        """Whether the plan is judged worse after it, as where an engine does not start then."""
        return worse(self.after.word, self.before.word)

    @property
    def unblocks(self) -> bool:
        """Whether it mends what keeps the plan from starting, whatever its peak."""
        return bool(self.before.blockers) and not self.after.blockers

    @property
    def seconds(self) -> Difference:
        """What it does to a step's time."""
        return seconds_between(self.before, self.after)

    @property
    def usd(self) -> Difference:
        """What it does to the run's cost."""
        return usd_between(self.before, self.after)

    @property
    def cost(self) -> str:
        """What a person gives for it besides time; empty where nothing."""
        kinds = {edit.kind: None for edit in self.edits}
        if self.after.plan.gpus <= self.before.plan.gpus:
            kinds.pop("GPUs", None)
        return ", ".join(COSTS[kind] for kind in kinds if COSTS[kind])

    def lowered_bytes(self, phase: str) -> int:
        """By how much a phase's own need falls; all of it where the phase is gone."""
        was, now = self.before.level(phase), self.after.level(phase)
        return (was.own_bytes if was else 0) - (now.own_bytes if now else 0)

    def phases(self) -> tuple[PhaseChange, ...]:
        """Every phase before and after, in the order of the step."""
        old, new = (
            {(one.name, one.rank): one for one in each.levels} for each in (self.before, self.after)
        )
        return tuple(
            PhaseChange(key[0], old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new))
        )

    @property
    def sentence(self) -> str:
        """Memory, time and verdict, in sizes of the command line."""
        return self.said(read_bytes)

    def said(self, read: Read) -> str:
        """Memory, time and verdict."""
        saved, was = self.saved_bytes, self.before
        memory = f"saves {read(saved)} at the peak" if saved > 0 else f"adds {read(-saved)} to it"
        if self.peak == "same":
            memory = "same peak"
        start = "; vLLM starts" if self.unblocks else ""
        now = self.after.word
        then = f"then: {now}" if now != was.word else f"still: {now}"
        return f"{memory}, {self.time_words}{start}; {then}"

    @property
    def time_words(self) -> str:
        """What happens to a step's seconds; what does not run has none, before or after."""
        found, now = self.seconds, self.after.step_seconds
        if now is None or found.sign == "not known":
            return "step time unknown"
        if not self.after.runs:
            return "does not run then" if self.before.runs else "no step time: it does not run yet"
        if not self.before.runs:
            return f"step then {read_seconds(now)}"
        told = f"{read_seconds(abs(found.by))} {'faster' if found.by < 0 else 'slower'} a step"
        if found.sign == "same":
            return f"{told} (under 1%)" if found.by else "same step time"
        return f"{told}{'' if found.sure else ', within the error'}"


def merged(edits: tuple[Edit, ...]) -> dict[str, Any]:
    """The changes of several edits; a later one's value wins."""
    found: dict[str, Any] = {}
    for edit in edits:
        found.update(edit.changes)
    return found


def condensed(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The edits without those that a later one of the same kind makes again, further."""
    found: list[Edit] = []
    for edit in edits:
        names = edit.changes.keys()
        again = [one for one in found if one.kind == edit.kind and one.changes.keys() & names]
        found = [one for one in found if one not in again]
        found.append(replace(edit, changes=merged((*again, edit))))
    return tuple(found)


class Trying:
    """Makes edits to one plan and keeps what each combination came to.

    Args:
        before: the plan's figures.
        judge: what gives a plan's estimate.
        progress: called before each estimate; it may raise to give up.
        refused: an edit that puts a field in the way that was none before drops out.
    """

    def __init__(
        self,
        before: Outcome,
        judge: Judge,
        progress: Callable[[], None] = lambda: None,
        refused: Refused = nothing,
    ) -> None:
        self.before, self._judge, self._progress, self._refused = before, judge, progress, refused
        self._in_the_way = {*refused(before.plan)}
        self._found: dict[Plan, Outcome] = {before.plan: before}

    def outcome(self, plan: Plan) -> Outcome:
        """What a plan comes to."""
        found = self._found.get(plan)
        if found is None:
            self._progress()
            found = self._found[plan] = outcome_of(self._judge(plan))
        return found

    def edited(self, *made: Edit) -> Suggestion | None:
        """What these edits do; None where no other plan comes of them that can be run as before."""
        changes = merged(made)
        plan, _ = try_plan({**self.before.plan.model_dump(), **changes})
        settled = {} if plan is None else self._settled(plan)
        if settled.keys() & changes.keys():
            return None
        if plan is not None and settled:
            plan, _ = try_plan({**plan.model_dump(), **settled})
        if plan is None or plan == self.before.plan:
            return None
        if names_anew(self.before.plan, changes):
            return None
        if {*self._refused(plan)} - self._in_the_way:
            return None
        after, before = self.outcome(plan), self.before
        return Suggestion(edits=condensed(made), before=before, after=after, settled=settled)

    def _settled(self, plan: Plan) -> dict[str, Any]:
        """What the framework's loop sets otherwise than this plan has it.

        A field that it never had as the loop sets it stays as it is, so that the figures before
        and after tell of the edit.
        """
        of, before = framework_named(plan.framework).settled, self.before.plan
        held = [name for name, value in of(before).items() if getattr(before, name) == value]
        told = of(plan)
        return {
            name: value
            for name, value in told.items()
            if getattr(plan, name) != value
            and (name in held or getattr(plan, name) != getattr(before, name))
        }

    def of(self, outcome: Outcome) -> Trying:
        """The same for edits to another plan, which it knows already."""
        other = Trying(outcome, self._judge, self._progress, self._refused)
        other._found = self._found
        return other
