"""The best single changes to a plan: each is made, re-estimated and ranked by what blocks.

What lets a plan start comes before what makes it fit; then what keeps weights, responses and GPUs
as they were asked for, and of that the largest saving per second lost. An engine whose share is too
small is mended by its own fields: nothing else that a person could change makes it start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.advice import share
from planner.advice.fitting import singles
from planner.advice.outcome import WORTH_BYTES, Judge, outcome_of
from planner.advice.suggestion import Suggestion, Trying
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.facts import holding

LEAST_SECONDS = 0.1
"""A change that costs less time counts as if it cost that much."""


def recommend(footprint: Footprint, most: int = 5) -> tuple[Suggestion, ...]:
    """Up to ``most`` changes that mend the plan or save memory, best first."""
    return ranked(Trying(outcome_of(footprint), judge_of(footprint)))[:most]


def judge_of(footprint: Footprint) -> Judge:
    """Estimates of other plans by the benchmark that a footprint was given, where it holds."""

    def judge(plan: Plan) -> Footprint:
        return estimate(plan, holding(footprint.speeds, plan))

    return judge


def ranked(trying: Trying, made: Sequence[Suggestion] | None = None) -> tuple[Suggestion, ...]:
    """Changes that mend the plan or save memory, best first; ``made`` are estimated already."""
    before = trying.before
    found = [*_starting(trying), *(singles(trying) if made is None else made)]
    worth = [one for one in found if _mends(one) or (one.peak == "less" and not one.worse)]
    if before.blockers and any(one.unblocks for one in worth):
        worth = [one for one in worth if one.unblocks]
    once = {tuple(sorted(one.changes.items(), key=str)): one for one in reversed(worth)}
    return tuple(sorted(reversed(once.values()), key=_rank))


def lowering(made: Iterable[Suggestion], phase: str) -> tuple[Suggestion, ...]:
    """Of these, what lowers a phase's own need, the most first.

    Nothing after which the plan is judged worse; of the phase that decides only what lowers the
    peak with it: the rest has no effect here.
    """
    able = [
        one
        for one in made
        if one.lowered_bytes(phase) >= WORTH_BYTES
        and not one.worse
        and (phase != one.before.worst or one.peak == "less")
    ]
    return tuple(sorted(able, key=lambda one: -one.lowered_bytes(phase)))


def _starting(trying: Trying) -> list[Suggestion]:
    plan = trying.before.plan
    if not share.has_engine(plan) or share.room_of(plan).starts:
        return []
    found = [trying.edited(*made) for made in share.starting(plan) if made]
    return [one for one in found if one is not None]


def _mends(one: Suggestion) -> bool:
    return one.unblocks or (one.fits and not one.before.fits)


def _rank(one: Suggestion) -> tuple[bool, bool, bool, float]:
    return not one.unblocks, not _mends(one), not one.keeps, -saving_per_second(one)


def saving_per_second(one: Suggestion) -> float:
    """Bytes saved per second lost; a change that costs no time counts as a tenth of one."""
    lost = one.seconds_lost
    return one.saved_bytes / max(LEAST_SECONDS if lost is None else lost, LEAST_SECONDS)
