"""What a plan comes to, without its terms, and what one plan does to another's figures.

A difference in time is claimed only where it is larger than the error of the seconds that differ:
phases that both plans share to the second are as wrong in one as in the other, and cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from planner.cost import cost
from planner.footprint import Footprint, Phase
from planner.plan import Plan
from planner.timing.step import OVERLAPPED
from planner.totals.limits import MARGIN
from planner.units import GIB
from planner.values.step_phases import StepPhase

Judge = Callable[[Plan], Footprint]
"""The estimate of a plan, as whoever asks for advice judges one."""

SAME = 0.01
"""Seconds, dollars or bytes that differ by less than this share are the same to a reader."""
WORTH_BYTES = GIB // 4
"""A smaller saving of a large peak is not worth a sentence."""


class Level(NamedTuple):
    """One phase's figures; ``own_bytes`` without what it only inherits from others' caches."""

    kind: StepPhase
    rank: str
    device_bytes: int
    own_bytes: int
    high_bytes: int
    host_bytes: int
    pool_bytes: int
    """Of ``device_bytes``, an engine's cache: 0 where none is awake."""
    seconds: float | None
    low_seconds: float | None
    high_seconds: float | None
    categories: Mapping[str, int]

    @property
    def name(self) -> str:
        """Which phase of the step it is."""
        return self.kind.name

    @property
    def needs_bytes(self) -> float:
        """The card that it would fit on, by centre and upper bound."""
        return max(self.device_bytes / MARGIN, self.high_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A plan and its figures."""

    plan: Plan
    word: Literal["fits", "tight", "out of memory"]
    blockers: tuple[str, ...]
    budget_bytes: int
    device_bytes: int
    trainer_bytes: int
    host_bytes: int | None
    worst: str
    levels: tuple[Level, ...]
    step_seconds: float | None
    low_seconds: float | None
    high_seconds: float | None
    usd_run: float | None
    low_usd: float | None
    high_usd: float | None
    incomplete: bool = False
    """Whether a part of the plan is left out, so that the word is of the rest alone."""

    @property
    def runs(self) -> bool:
        """Whether it has the memory, so that its seconds are those of a step."""
        return self.word != "out of memory"

    @property
    def fits(self) -> bool:
        """Whether it fits with the margin that a verdict asks for."""
        return self.word == "fits"

    @property
    def needs_bytes(self) -> float:
        """The card that it would fit on; it ranks plans, and the estimate gives the verdict."""
        return max(one.needs_bytes for one in self.levels)

    def level(self, name: str) -> Level | None:
        """The phase of that name, the trainer's where two ranks have one; None without one."""
        found = [one for one in self.levels if one.name == name]
        return max(found, key=lambda one: (one.rank == "trainer", one.device_bytes), default=None)


def outcome_of(footprint: Footprint) -> Outcome:
    """What a footprint comes to."""
    paid = cost(footprint)
    return Outcome(
        plan=footprint.plan,
        word=footprint.verdict.word,
        incomplete=footprint.verdict.incomplete,
        blockers=footprint.blockers,
        budget_bytes=footprint.budget_bytes,
        device_bytes=footprint.device_bytes,
        trainer_bytes=footprint.trainer_bytes,
        host_bytes=footprint.host_bytes,
        worst=footprint.worst.name,
        levels=tuple(map(_level, footprint.phases)),
        step_seconds=footprint.step_seconds,
        low_seconds=footprint.low_seconds,
        high_seconds=footprint.high_seconds,
        usd_run=paid.usd_run,
        low_usd=paid.low_usd_run,
        high_usd=paid.high_usd_run,
    )


def _level(phase: Phase) -> Level:
    timed = phase.seconds if phase.per_step else None
    return Level(
        kind=phase.kind,
        rank=phase.rank,
        device_bytes=phase.device_bytes,
        own_bytes=phase.own_bytes,
        high_bytes=phase.most_bytes,
        host_bytes=phase.host_bytes or 0,
        pool_bytes=phase.pool_bytes,
        seconds=timed,
        low_seconds=None if timed is None else phase.low_seconds,
        high_seconds=None if timed is None else phase.high_seconds,
        categories={str(name): size for name, size in phase.by_category().items()},
    )


Sign = Literal["less", "more", "same", "not known"]


class Difference(NamedTuple):
    """How a figure changes: by how much, which way, and whether beyond the error of both."""

    by: float
    sign: Sign
    sure: bool


UNKNOWN = Difference(0.0, "not known", False)


def seconds_between(before: Outcome, after: Outcome) -> Difference:
    """What a step's seconds do, judged by the phases whose seconds differ."""
    was, now = before.step_seconds, after.step_seconds
    if was is None or now is None:
        return UNKNOWN
    sign = _sign(was, now)
    if sign == "same":
        return Difference(now - was, sign, True)
    return Difference(now - was, sign, _apart(*_differing(before, after)))


Ends = tuple[float | None, float | None]


def _differing(before: Outcome, after: Outcome) -> tuple[Ends, Ends]:
    """Least and most seconds of both, of the phases that differ; of whole steps that overlap."""
    plans = (before.plan, after.plan)
    whole = (before.low_seconds, before.high_seconds), (after.low_seconds, after.high_seconds)
    if any(plan.rollout_overlap in OVERLAPPED for plan in plans):
        return whole
    old, new = ({(one.name, one.rank): one for one in each.levels} for each in (before, after))
    if old.keys() != new.keys():
        return whole
    changed = [key for key in old if old[key].seconds != new[key].seconds]
    return _sums([old[key] for key in changed]), _sums([new[key] for key in changed])


def _sums(levels: list[Level]) -> Ends:
    lows = [one.low_seconds for one in levels]
    highs = [one.high_seconds for one in levels]
    if None in lows or None in highs:
        return None, None
    return sum(map(float, filter(None, lows))), sum(map(float, filter(None, highs)))


def _apart(one: Ends, other: Ends) -> bool:
    if None in one or None in other:
        return False
    (low, high), (least, most) = one, other
    assert low is not None and high is not None and least is not None and most is not None
    return low > most or least > high


def usd_between(before: Outcome, after: Outcome) -> Difference:
    """What the run's dollars do; with as many of the same GPUs they are sure where seconds are."""
    was, now = before.usd_run, after.usd_run
    if was is None or now is None:
        return UNKNOWN
    sign = _sign(was, now)
    alike = all(getattr(before.plan, f) == getattr(after.plan, f) for f in ("gpu", "gpus"))
    if alike:
        sure = seconds_between(before, after).sure
    else:
        sure = _apart((before.low_usd, before.high_usd), (after.low_usd, after.high_usd))
    return Difference(now - was, sign, sign == "same" or sure)


def _sign(was: float, now: float) -> Sign:
    if abs(now - was) <= SAME * was:
        return "same"
    return "less" if now < was else "more"
