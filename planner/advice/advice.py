"""All advice on one plan; each part is worked out when it is asked for, on estimates they share.

What lets a plan start comes before what makes it fit; then what keeps weights, responses and GPUs
as they were asked for, and of that the largest saving per second lost. An engine whose share is too
small is mended by its own fields: nothing else that a person could change makes it start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from planner.advice import fitting, room
from planner.advice import share as engine_share
from planner.advice.edits import Edit
from planner.advice.idle import Idle, idle
from planner.advice.outcome import WORTH_BYTES, Judge, Outcome, outcome_of
from planner.advice.suggestion import Read, Refused, Suggestion, Trying, nothing
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan.facts import holding

LEAST_SECONDS = 0.1
"""A change that costs less time counts as if it cost that much."""


def recommend(footprint: Footprint, most: int = 5) -> tuple[Suggestion, ...]:
    """Up to ``most`` changes that mend the plan or save memory, best first."""
    return Advice(footprint).singles[:most]


def silent() -> None:
    """Tells nobody about progress."""


class Advice:
    """Advice on a footprint's plan.

    Args:
        footprint: the plan's.
        judge: what gives other plans' footprints; without it estimates that rest on the
            footprint's own benchmark.
        progress: called before each estimate; it may raise to give up.
        refused: fields in the way of running a plan with its framework; advice adds none.
    """

    def __init__(
        self,
        footprint: Footprint,
        judge: Judge | None = None,
        progress: Callable[[], None] = silent,
        refused: Refused = nothing,
    ) -> None:
        given = judge or (lambda plan: estimate(plan, holding(footprint.speeds, plan)))
        self._trying = Trying(outcome_of(footprint), given, progress, refused)

    def edited(self, edit: Edit) -> Suggestion | None:
        """What one more edit does; None where it cannot be made."""
        return self._trying.edited(edit)

    @property
    def outcome(self) -> Outcome:
        """The plan as it is."""
        return self._trying.before

    def knows(self, *parts: str) -> bool:
        """Whether these parts are worked out already."""
        return self.__dict__.keys() >= set(parts)

    @property
    def judged(self) -> int:
        """Plans estimated so far."""
        return self._trying.judged

    @cached_property
    def ways(self) -> tuple[Suggestion, ...]:
        """Make it fit: whole ways, best first; none where it fits."""
        return () if self.outcome.fits else fitting.ways(self._trying)

    @cached_property
    def made(self) -> tuple[Suggestion, ...]:
        """Every single edit that the plan allows."""
        return tuple(fitting.singles(self._trying))

    @cached_property
    def singles(self) -> tuple[Suggestion, ...]:
        """Single edits that mend the plan or save memory, by what blocks."""
        found = [*fitting.starting(self._trying).values(), *self.made]
        worth = [one for one in found if _mends(one) or (one.peak == "less" and not one.worse)]
        if self.outcome.blockers and any(one.unblocks for one in worth):
            worth = [one for one in worth if one.unblocks]
        once = {tuple(sorted(one.changes.items(), key=str)): one for one in reversed(worth)}
        return tuple(sorted(reversed(once.values()), key=_rank))

    @cached_property
    def pairs(self) -> tuple[Suggestion, ...]:
        """Two edits together: what makes it fit for less than any one of them does.

        Where it fits, what is faster in the room that another edit makes.
        """
        if self.outcome.fits:
            return fitting.trades(self._trying, self.made, room.beyond(self._trying))
        return fitting.pairs(self._trying, self.made)

    def lowering(self, phase: str) -> tuple[Suggestion, ...]:
        """What lowers a phase's own need, the most first.

        Nothing after which the plan is judged worse; of the phase that decides only what lowers
        the peak with it: the rest has no effect here.
        """
        able = [
            one
            for one in self.made
            if one.lowered_bytes(phase) >= WORTH_BYTES
            and not one.worse
            and (phase != one.before.worst or one.peak == "less")
        ]
        return tuple(sorted(able, key=lambda one: -one.lowered_bytes(phase)))

    @cached_property
    def faster(self) -> tuple[Suggestion, ...]:
        """Use the free memory: single changes that shorten a step and still fit."""
        return room.faster(self._trying)

    @cached_property
    def used(self) -> Suggestion | None:
        """Use the free memory: those put together."""
        return room.used(self._trying, self.faster)

    @cached_property
    def cheaper(self) -> tuple[Suggestion, ...]:
        """Fewer GPUs on which it fits for less money."""
        return room.cheaper(self._trying)

    @cached_property
    def idle(self) -> tuple[Idle, ...]:
        """What people try and what does nothing here."""
        return idle(self._trying)

    @cached_property
    def share(self) -> tuple[Suggestion, ...]:
        """The share that serves best at each spread of the engine."""
        return tuple(engine_share.choices(self._trying))

    def share_words(self, read: Read) -> str:
        """What the engine's share holds; empty where there is none."""
        return engine_share.in_words(self.outcome, read)


def _mends(one: Suggestion) -> bool:
    return one.unblocks or (one.fits and not one.before.fits)


def _rank(one: Suggestion) -> tuple[bool, bool, bool, float]:
    """Bytes saved per second lost at last; a change that costs no time costs a tenth of one."""
    lost = max(LEAST_SECONDS if one.seconds_lost is None else one.seconds_lost, LEAST_SECONDS)
    return not one.unblocks, not _mends(one), not one.keeps, -one.saved_bytes / lost
