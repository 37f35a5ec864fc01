"""A row's figures beside its plan's, at every level that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accuracy.peaks.planned import Planned
from accuracy.peaks.rows import Row
from accuracy.quantity import UPDATE, Addition
from accuracy.quantity import scene as scene_of
from planner.estimate import estimate, phase_plans
from planner.footprint import Footprint, Phase
from planner.plan import Plan
from planner.term import Instant
from planner.totals.levels import Adder


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A row, its estimate's bytes by measured level, and the same with the row's additions."""

    row: Row
    how: Planned
    estimated: Mapping[str, int]
    completed: Mapping[str, int]
    instant: str
    additions: tuple[Addition, ...]
    verdict: str
    high_device: int
    """The upper bound that the estimate states of its device bytes."""

    most_added: int
    """The most that any instant's additions are: their segments stay cached, wherever the peak."""

    @property
    def stated(self) -> bool:
        """Whether the source states all settings: of some rows it gives the mean length alone."""
        return "mean lengths" not in self.how.group

    @property
    def whole(self) -> bool:
        """Whether a plan says all that the run held at its peak, by a figure of high confidence."""
        said = self.stated and not (self.additions or self.how.otherwise)
        return self.row.confidence == "high" and said

    @property
    def high_completed(self) -> int:
        """The same with what no field says."""
        return self.high_device + self.most_added

    def error(self, level: str) -> float:
        """Signed relative error of the estimate at a level."""
        return self.estimated[level] / self.row.peaks[level] - 1

    def completed_error(self, level: str) -> float:
        """The same with what no field says."""
        return self.completed[level] / self.row.peaks[level] - 1


def compared(row: Row, how: Planned) -> Compared:
    """The row beside its plan's estimate; raises what the plan raises when it is refused."""
    plan = Plan(**how.fields)
    footprint = estimate(plan)
    estimated = levels(footprint)
    size, instant, additions, most = _completed(plan, how)
    more = size - estimated["allocated"]
    return Compared(
        row=row,
        how=how,
        estimated={level: estimated[level] for level in row.peaks},
        completed={level: estimated[level] + more for level in row.peaks},
        instant=instant,
        additions=additions,
        verdict=footprint.verdict.word,
        high_device=max(high_bytes(phase) for phase in _update(footprint)),
        most_added=most,
    )


def levels(footprint: Footprint) -> dict[str, int]:
    """The most of each measured level over the phases of an update.

    Where a source does not say how it read a figure (``stated``), that is of reserved bytes.
    """
    update = _update(footprint)
    reserved = max(phase.reserved_bytes for phase in update)
    return {
        "allocated": max(phase.allocated_bytes for phase in update),
        "reserved": reserved,
        "stated": reserved,
        "device": max(phase.device_bytes for phase in update),
    }


def high_bytes(phase: Phase) -> int:
    """The upper bound of a phase's device bytes, or these where none is stated."""
    return int(getattr(phase, "high_bytes", None) or phase.device_bytes)


def _update(footprint: Footprint) -> list[Phase]:
    return [phase for phase in footprint.phases if phase.name in UPDATE]


def _completed(plan: Plan, how: Planned) -> tuple[int, str, tuple[Addition, ...], int]:
    """The highest instant's allocated bytes with its additions, and the most that any adds."""
    scene, adder = scene_of(plan), Adder(plan.expandable_segments)
    best: tuple[int, str, tuple[Addition, ...]] = (-1, "", ())
    most = 0
    for phase in phase_plans(scene):
        if phase.name not in UPDATE:
            continue
        for instant in phase.instants:
            found = tuple(how.more(scene, phase.name, instant))
            more = sum(addition.bytes for addition in found)
            size, most = _allocated(adder, instant) + more, max(most, more)
            best = max(best, (size, f"{phase.name}: {instant.name}", found), key=lambda it: it[0])
    return *best, most


def _allocated(adder: Adder, instant: Instant) -> int:
    return int(adder.totals(instant).allocated)
