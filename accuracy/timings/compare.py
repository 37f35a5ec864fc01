"""A row's published seconds beside its plan's, phase by phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from accuracy.timings import runs, trainers
from accuracy.timings.planned import How, Left, Planned
from accuracy.timings.rows import Row, rows
from accuracy.timings.split import Side
from planner.catalog.kernel_cards import has_tables
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan, try_plan
from planner.plan.facts import facts_of
from planner.timing.error import KIND_OF

PHASES = ("rollout", "log-probs", "update", "weight sync", "step")
"""Published phases, in a step's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A row, its plan, and seconds by published phase: a trainer's step is its update."""

    row: Row
    how: Planned
    plan: Plan
    published: Mapping[str, float]
    predicted: Mapping[str, float]
    mixture: bool
    tables: bool

    @property
    def group(self) -> str:
        """Which of the targets speaks of it."""
        if self.row.trainer:
            return MIXED_TRAINING if self.mixture else TRAINING
        return MIXTURES if self.mixture else DENSE

    def error(self, phase: str) -> float:
        """Signed relative error of a phase's seconds."""
        return self.predicted[phase] / self.published[phase] - 1


DENSE, MIXTURES = "RL, dense", "RL, mixtures"
TRAINING, MIXED_TRAINING = "training without rollouts, dense", "training without rollouts, mixtures"
TARGETS = {DENSE: 0.15, MIXTURES: 0.30, TRAINING: 0.12, MIXED_TRAINING: 0.30}
"""Most that a median of absolute errors is to be, over exact rows of high confidence."""


def how(row: Row) -> How:
    """How one row is planned; ``KeyError`` for a project that nobody mapped."""
    by_project = trainers.PROJECTS
    if row.trainer and row.project in by_project:
        return trainers.how(row)
    return runs.how(row)


def published(row: Row, told: Planned) -> dict[str, float]:
    """Seconds by phase that the row publishes and the plan speaks of.

    A rate is turned into the step that it is of where no seconds stand beside it.
    """
    found = {name: seconds for name, seconds in row.figures.items() if name in PHASES}
    rate = row.figures.get("tokens/s per GPU")
    if rate and told.tokens and not {"step", "update"} & found.keys():
        found["step"] = told.tokens / rate / row["gpus"]
    if row.trainer and "step" in found:
        found["update"] = found.pop("step")
    return {name: found[name] for name in PHASES if name in found and name in (told.only or found)}


def predicted(footprint: Footprint) -> dict[str, float]:
    """Seconds by the same phases; a phase that the estimate has no time of is left out."""
    sums: dict[str, float] = {}
    for phase in footprint.phases:
        kind = KIND_OF.get(phase.name)
        if kind and phase.per_step and phase.seconds is not None:
            sums[kind] = sums.get(kind, 0.0) + phase.seconds
    if footprint.step_seconds is not None:
        sums["step"] = footprint.step_seconds
    return sums


@cache
def results(side: Side, *, final: bool = False) -> tuple[tuple[Compared, ...], tuple[Reason, ...]]:
    """Every row of a side with a plan, compared; and every other one with its reason.

    Raises:
        ValueError: for the held side, unless it is scored for the last time.
    """
    if side == "held" and not final:
        raise ValueError("The held half is scored once, at the end: pass --final.")
    done: list[Compared] = []
    left: list[Reason] = []
    for row in rows(final=final):
        if row.side != side:
            continue
        item = compared(row)
        if isinstance(item, Compared):
            done.append(item)
        else:
            left.append((row, item))
    return tuple(done), tuple(left)


Reason = tuple[Row, str]
"""A row without a prediction, and why."""


def compared(row: Row) -> Compared | str:
    """The row beside its plan's estimate, or why it has none."""
    told = how(row)
    if isinstance(told, Left):
        return told.reason
    plan, problems = try_plan(told.fields)
    if plan is None:
        return f"refused: {problems[0].sentence}"
    figures = published(row, told)
    if not figures:
        return "no seconds of a phase that a plan has"
    seconds = predicted(estimate(plan))
    missing = figures.keys() - seconds.keys()
    if missing == figures.keys():
        return "the estimate has no time of it"
    gpu = facts_of(plan).gpu
    return Compared(
        row=row,
        how=told,
        plan=plan,
        published={name: value for name, value in figures.items() if name in seconds},
        predicted={name: seconds[name] for name in figures if name in seconds},
        mixture=bool(facts_of(plan).policy.architecture.sparse_layers),
        tables=has_tables(gpu),
    )
