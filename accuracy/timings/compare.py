"""A row's published seconds beside its plan's, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from accuracy.timings import runs, trainers
from accuracy.timings.planned import How, Left, Planned
from accuracy.timings.rows import Row, rows
from accuracy.timings.split import Side
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.kernels import tables_of
from planner.plan import try_plan
from planner.plan.facts import facts_of

PHASES = ("rollout", "log-probs", "update", "weight sync", "step")
"""Published phases, in a step's order."""
RATE, MFU = "tokens/s per GPU", "MFU"
RATES = (RATE, MFU)
"""What else is published: of the whole step, and of its updates; higher is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One phase or rate of one row, published and predicted, and what it is judged with."""

    id: str
    project: str
    confidence: str
    exact: bool
    phase: str
    group: str
    """Which of the targets speaks of it."""
    mixture: bool
    tables: bool
    lengths: bool
    published: float
    predicted: float
    alternatives: str
    """Rows that are ways to do the same: of one project and model."""
    tokens: float
    """Of a step, all GPUs together; 0 where not known."""
    gpus: int
    assumed: str

    @property
    def error(self) -> float:
        """Signed relative error."""
        return self.predicted / self.published - 1

    @property
    def judged(self) -> bool:
        """Whether a target speaks of it: high confidence, exact, lengths known."""
        return self.confidence == "high" and self.exact and self.lengths


DENSE, MIXTURES = "RL, dense", "RL, mixtures"
TRAINING, MIXED_TRAINING = "training without rollouts, dense", "training without rollouts, mixtures"
TARGETS = {DENSE: 0.15, MIXTURES: 0.30, TRAINING: 0.12, MIXED_TRAINING: 0.30}
"""Most that a median of absolute errors is to be, over exact rows of high confidence."""


def how(row: Row) -> How:
    """How one row is planned; ``KeyError`` for a project that nobody mapped."""
    return trainers.how(row) if row.trainer else runs.how(row)


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
    known = {name: found[name] for name in PHASES if name in found}
    known |= {name: row.figures[name] for name in RATES if name in row.figures}
    return {name: value for name, value in known.items() if name in (told.only or known)}


def answers(footprint: Footprint, told: Planned, row: Row) -> dict[str, float]:
    """What the estimate says of each of them; a trainer's rate is of its updates and GPUs alone."""
    found = {name: told.rounds * value for name, value in predicted(footprint).items()}
    done, step = footprint.done, found.get("update" if row.trainer else "step")
    if done is None or not step:
        return found
    tokens = told.tokens or told.rounds * done.tokens
    peak = facts_of(footprint.plan).gpu.flops_per_second(footprint.plan.dtype)
    found[RATE] = float(tokens / step / row["gpus"])
    if peak and "update" in found:
        found[MFU] = float(told.rounds * done.model_flops / found["update"] / peak)
    return found


def predicted(footprint: Footprint) -> dict[str, float]:
    """Seconds by the same phases; a phase that the estimate has no time of is left out."""
    sums: dict[str, float] = {}
    for phase in footprint.phases:
        kind = phase.kind.published
        if kind and phase.per_step and phase.seconds is not None:
            sums[kind] = sums.get(kind, 0.0) + phase.seconds
    if footprint.step_seconds is not None:
        sums["step"] = footprint.step_seconds
    return sums


@cache
def results(side: Side, *, final: bool = False) -> tuple[tuple[Figure, ...], tuple[Reason, ...]]:
    """Figures of every row of a side that has a plan, and every other row with its reason.

    Raises:
        ValueError: for the held side, unless it is scored for the last time.
    """
    if side == "held" and not final:
        raise ValueError("The held half is scored once, at the end: pass --final.")
    found: list[Figure] = []
    left: list[Reason] = []
    for row in rows(final=final):
        if row.side == side:
            item = figures(row)
            if isinstance(item, str):
                left.append(Reason(row.id, item))
            else:
                found += item
    return tuple(found), tuple(left)


class Reason(NamedTuple):
    """A row without a prediction, and why."""

    id: str
    words: str


def figures(row: Row) -> list[Figure] | str:
    """The row's phases beside its plan's estimate, or why it has none."""
    told = how(row)
    if isinstance(told, Left):
        return told.reason
    plan, problems = try_plan(told.fields)
    if plan is None:
        return f"refused: {problems[0].message}"
    known = published(row, told)
    if not known:
        return "no seconds of a phase that a plan has"
    seconds = answers(estimate(plan), told, row)
    facts = facts_of(plan)
    mixture = bool(facts.policy.sparse_layers)
    kernels = tables_of(facts.gpu)
    return [
        Figure(
            id=row.id,
            project=row.project,
            confidence=row.confidence,
            exact=told.exact,
            phase=phase,
            group=group_of(row, mixture),
            mixture=mixture,
            tables=kernels is not None and kernels.own,
            lengths=told.lengths,
            published=value,
            predicted=seconds[phase],
            alternatives=f"{row.project} {row['model']}",
            tokens=told.tokens,
            gpus=row["gpus"],
            assumed=told.assumed,
        )
        for phase, value in known.items()
        if phase in seconds
    ] or "the estimate has no time of it"


def group_of(row: Row, mixture: bool) -> str:
    """Which target a row is judged by."""
    if row.trainer:
        return MIXED_TRAINING if mixture else TRAINING
    return MIXTURES if mixture else DENSE
