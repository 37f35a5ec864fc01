"""Which plans each of the three may be, which a goal puts first, and where a better one may be.

The margins rest on what is known of the estimate's error: *conservative* fits at the upper bound
of all that nobody can know exactly, with the verdict's own margin on top, and keeps its limits at
the slow end of its times; *balanced* has the verdict *fits*; *aggressive* may be tight.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from planner.cost import run_hours
from planner.plan import Plan
from planner.plan.fields import EIGHT_BIT
from planner.search.found import Name
from planner.search.judging import Array, Rows
from planner.search.wish import Wish
from planner.totals.limits import MARGIN

Line = tuple[float, ...]
NAMES: tuple[Name, ...] = ("conservative", "balanced", "aggressive")

STEP = 0.005
"""Relative steps of time and money that count: no setting is changed for less."""

MOVED = 1000
"""What another card counts where the goal is to fit: more than any time."""
SEVERITY: Mapping[str, int] = {"response_tokens": 8, "finetuning": 4, "optimizer": 1}
"""How much a changed field may cost the result of training, for their order alone."""


def gives_up(plan: Plan, changes: Mapping[str, Any]) -> int:
    """How much the result of training may lose by these changes; 0 where it is the same run."""
    found = 0
    if changes.get("response_tokens", plan.response_tokens) < plan.response_tokens:
        found += SEVERITY["response_tokens"]
    if plan.finetuning == "full" and changes.get("finetuning", "full") != "full":
        found += SEVERITY["finetuning"]
    if plan.optimizer not in EIGHT_BIT and changes.get("optimizer", "") in EIGHT_BIT:
        found += SEVERITY["optimizer"]
    return found


def admitted(name: Name, rows: Rows, wish: Wish, steps: int) -> Array:
    """Which rows this one of the three may be, for runs of so many steps."""
    if name == "conservative":
        fits = (rows.code == 0) & (rows.high_bytes <= MARGIN * rows.budget_bytes)
        # An unknown factor is NaN, and a limit that cannot be shown to hold does not.
        times, usd = (rows.high_seconds, rows.high_between_seconds), rows.high_usd
    else:
        fits = rows.code <= (0 if name == "balanced" else 1)
        times, usd = (rows.seconds, rows.between_seconds), rows.usd
    if wish.budget_usd:
        fits = fits & (usd <= wish.budget_usd)
    if wish.deadline_hours:
        fits = fits & (run_hours(*times, steps) <= wish.deadline_hours)
    found: Array = fits
    return found


def steps_of(figure: Array) -> Array:
    """A figure in steps of :data:`STEP`; unknown ones last."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.floor(np.log(figure) / np.log1p(STEP))
    return np.where(np.isfinite(found), found, np.inf)


def order(
    name: Name,
    wish: Wish,
    rows: Rows,
    sizes: Mapping[str, Array],
    severity: Array,
    changed: Array,
) -> Array:
    """Rows by what the goal puts first: a line of numbers each, less is better.

    Args:
        name: aggressive plans give up whatever is free for the goal, others as little as they can.
        wish: the goal.
        rows: what was judged.
        sizes: GPUs, micro-batch and response tokens of each row, and whether its card is another.
        severity: :func:`gives_up` of each row.
        changed: how many fields each row changes.
    """
    seconds, usd = steps_of(rows.seconds), steps_of(rows.usd)
    objective = {
        # As fast as a few changes make it: a tenth of the time is worth another.
        # Its own GPUs come before any others.
        "fit": (np.floor(seconds / (0.1 / STEP)) + MOVED * sizes["moved"], changed, seconds),
        "cheapest": (usd, seconds),
        "deadline": (usd, seconds),
        "fewest-gpus": (sizes["gpus"], usd, seconds),
        "longest": (-sizes["response_tokens"], seconds),
        "largest-batch": (-sizes["micro_batch_size"], seconds),
    }.get(wish.goal, (seconds, usd))
    first = (*objective, severity) if name == "aggressive" else (severity, *objective)
    found: Array = np.stack([*np.broadcast_arrays(*first, changed, rows.device_bytes)], axis=1)
    return found


SIZES = ("fewest-gpus", "longest", "largest-batch")
"""Goals that put a size before time and money."""
Placed = tuple[Name, Line]
"""A tier and a plan's line of :func:`order` in it."""


def no_better(wish: Wish, one: Placed, safer: Placed) -> bool:
    """Whether a plan with less margin is, by the goal, only what a safer one is.

    Where the goal is to fit, its time counts alone. Time and money of a step less are no gain: the
    figures of two neighbouring steps may be as near as those of one.
    """
    counted, sized = -1 if wish.goal == "fit" else 0, wish.goal in SIZES
    (gives, mine), (safer_gives, other) = (_read(*each) for each in (one, safer))
    near = tuple(each - (1 if at or not sized else 0) for at, each in enumerate(other))
    return safer_gives <= gives and near[counted:] <= mine[counted:]


def _read(name: Name, line: Line) -> tuple[float, Line]:
    """What a line says is given up, and where its goal puts the plan."""
    return (line[-3], line[:-3]) if name == "aggressive" else (line[0], line[1:-2])


def best(lines: Array) -> Array:
    """Numbers of the rows, best first."""
    return np.lexsort(lines.T[::-1])


class Finer(NamedTuple):
    """How a size is looked at between the values of its grid."""

    unit: int
    """Every value is a multiple of it; no finer than people type."""
    at_once: int
    """Values of one gap that are judged together."""


FINER = {"gpus": Finer(1, 7), "response_tokens": Finer(128, 3)}
BELOW, ABOVE = "below", "above"
SIDES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("longest", "response_tokens"): (ABOVE,),
    ("fewest-gpus", "gpus"): (BELOW,),
}
"""Where a better value can be, by goal and size; otherwise of GPUs on both sides."""


def sides(goal: str, name: str) -> tuple[str, ...]:
    """Whether a goal may find a better size below the best one tried, above it, or both."""
    return SIDES.get((goal, name), (BELOW, ABOVE) if name == "gpus" else ())


STEPS = 45.0
"""Of seconds or dollars (:data:`STEP`): a quarter."""
BEHIND: Mapping[str, float] = {"longest": 0, "fewest-gpus": 0, "largest-batch": 0, "fit": 2}


def behind(goal: str, best: float) -> float:
    """The worst that another machine may be, as the goal counts, and still come to lead.

    Where the goal is a size all machines were tried at the same ones, so only equals may.
    """
    return best + BEHIND.get(goal, STEPS)


def beyond(goal: str, best: float) -> float:
    """The same of a machine on which little was tried: half as much again, of a size twice."""
    if goal in SIZES:
        return best * (2.0 if best > 0 else 0.5)
    return best + 2 * BEHIND.get(goal, STEPS)


def between(
    known: Sequence[int], chosen: Collection[int], finer: Finer, where: Collection[str]
) -> tuple[int, ...]:
    """Multiples of a unit in each gap beside a chosen value, evenly spread.

    Args:
        known: the values that were judged, rising.
        chosen: those of them beside which to look.
        finer: the unit, and how many values of a gap.
        where: on which sides of a chosen value.
    """
    found: set[int] = set()
    for low, high in zip(known, known[1:], strict=False):
        if (ABOVE in where and low in chosen) or (BELOW in where and high in chosen):
            step = finer.unit * max(-(-(high - low) // (finer.unit * (finer.at_once + 1))), 1)
            found.update(range((low // step + 1) * step, high, step))
    return tuple(sorted(found))
