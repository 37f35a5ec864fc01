"""Which GPUs: every card of the catalog, so many of them, with nothing else of the plan changed.

Cards and counts are swept through the formulas of an estimate. What does not fit can be mended, row
by row, by what keeps weights, responses and GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from planner.advice.edits import Edit
from planner.advice.fitting import kept
from planner.advice.outcome import Judge, outcome_of
from planner.advice.suggestion import Refused, Suggestion, Trying, nothing
from planner.catalog import gpus
from planner.plan import Plan, try_plan
from planner.plan.facts import obstacle
from planner.speeds import Speeds
from planner.sweeps.table import sweep
from planner.values.sharding import sharding_of

if TYPE_CHECKING:
    import pandas as pd

FARTHEST = 64
"""Most GPUs of the table, or twice the plan's where that is more."""

Word = Literal["fits", "tight", "out of memory", "impossible"]


class Choice(NamedTuple):
    """A plan on other GPUs; None of what nobody knows, or of a plan that does not run."""

    gpu: str
    name: str
    gpus: int
    word: Word
    changes: dict[str, Any]
    device_bytes: int | None
    budget_bytes: int | None
    worst: str
    step_seconds: float | None
    low_seconds: float | None
    high_seconds: float | None
    usd_run: float | None
    low_usd: float | None
    high_usd: float | None
    mended: str = ""
    """The edits without which it does not fit; empty where nothing else of the plan changes."""


def counts(plan: Plan) -> list[int]:
    """Numbers of GPUs: powers of two, and the plan's own."""
    most, found = max(FARTHEST, 2 * plan.gpus), {plan.gpus}
    size = 1
    while size <= most:
        found.add(size)
        size *= 2
    return sorted(found)


def choices(
    plan: Plan,
    speeds: Speeds | None = None,
    *,
    judged: Callable[[pd.DataFrame, Plan], pd.DataFrame] = lambda table, base: table,
    progress: Callable[[], None] = lambda: None,
) -> tuple[Choice, ...]:
    """Every card that a plan can be judged on × every count, in the catalog's order.

    Args:
        plan: whose other fields stay; several GPUs shard what a plan of one GPU has whole.
        speeds: a benchmark's shares of the peaks, for the card that it is of.
        judged: puts measured errors into a sweep's table, given the plan that it is a sweep of.
        progress: called before each sweep; it may raise to give up.
    """
    cards = [card for card in gpus() if not card.unsupported_reason]
    names = {card.key: card.name for card in cards}
    found: list[Choice] = []
    for (keys, typed), (more, numbers) in product(_typed(plan, list(names)), _groups(plan)):
        changes = {**typed, **more}
        base = _base(plan, changes, numbers, keys)
        if base is None:
            continue
        progress()
        held = speeds if speeds is not None and not obstacle(speeds, base) else None
        table = judged(sweep(base, {"gpu": keys, "gpus": numbers}, held), base)
        found += (_choice(row, names[row["gpu"]], changes) for row in table.to_dict("records"))
    order = list(names)
    return tuple(sorted(found, key=lambda one: (order.index(one.gpu), one.gpus)))


def _typed(plan: Plan, cards: list[str]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Cards by what of the plan was typed in for its own card, and is not true of another."""
    typed: dict[str, Any] = {"gpu_bytes": 0} if plan.gpu_bytes else {}
    if not plan.price_per_gpu_hour:
        yield cards, typed
        return
    if plan.gpu in cards:
        yield [plan.gpu], typed
    yield [key for key in cards if key != plan.gpu], {**typed, "price_per_gpu_hour": 0.0}


def _groups(plan: Plan) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Counts that are swept together, and what else they change.

    A separate engine keeps its part of the GPUs, so each count is a plan of its own.
    """
    every = counts(plan)
    if plan.rollout_gpus:
        for number in every:
            yield {"rollout_gpus": max(plan.rollout_gpus * number // plan.gpus, 1)}, [number]
    elif not sharding_of(plan).alone:
        yield {}, every
    else:
        yield {}, [1]
        yield {"sharding": "fsdp2"}, [number for number in every if number > 1]


def _base(
    plan: Plan, changes: dict[str, Any], numbers: Sequence[int], cards: Sequence[str]
) -> Plan | None:
    """A plan of the sweep from which the others differ by card and count; None without one."""
    values = {**plan.model_dump(), **changes}
    own = [plan.gpu] if plan.gpu in cards else []
    for gpu in (*own, *cards):
        for number in numbers:
            found, _ = try_plan({**values, "gpu": gpu, "gpus": number})
            if found is not None:
                return found
    return None


def _choice(row: dict[Any, Any], name: str, changes: dict[str, Any]) -> Choice:
    runs = row["valid"] and row["verdict"] != "out of memory"

    def figure(column: str, known: bool = runs) -> float | None:
        value = row[column]
        return float(value) if known and value == value else None  # NaN where nobody knows

    device, budget = (figure(each, row["valid"]) for each in ("device_bytes", "budget_bytes"))
    return Choice(
        gpu=row["gpu"],
        name=name,
        gpus=row["gpus"],
        word=row["verdict"] if row["valid"] else "impossible",
        changes={"gpu": row["gpu"], "gpus": row["gpus"], **changes},
        device_bytes=None if device is None else int(device),
        budget_bytes=None if budget is None else int(budget),
        worst=str(row["worst_phase"]) if row["valid"] else "",
        step_seconds=figure("step_seconds"),
        low_seconds=figure("low_step_seconds"),
        high_seconds=figure("high_step_seconds"),
        usd_run=figure("usd_run"),
        low_usd=figure("low_usd_run"),
        high_usd=figure("high_usd_run"),
    )


def mended(
    plan: Plan,
    found: Sequence[Choice],
    judge: Judge,
    refused: Refused = nothing,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[Choice, ...]:
    """The choices that are out of memory and fit after the fewest edits, in their order.

    Those keep weights, responses and GPUs. What mends a card is tried on fewer of it first, and a
    card that nothing mends is not mended on fewer.

    Args:
        plan: whose choices they are.
        found: as :func:`choices` gives them.
        judge: what gives a plan's estimate.
        refused: fields in the way of running a plan with its framework; mending adds none.
        progress: told which share is done; it may raise to give up.
    """
    failing = [one for one in found if one.word == "out of memory"]
    done: dict[tuple[str, int], Choice] = {}
    beyond: set[str] = set()
    ways: dict[str, list[tuple[Edit, ...]]] = {}
    for number, one in enumerate(sorted(failing, key=lambda one: -one.gpus)):
        progress(number / len(failing))
        start, _ = try_plan({**plan.model_dump(), **one.changes})
        if start is None or one.gpu in beyond:
            continue
        trying = Trying(outcome_of(judge(start)), judge, refused=refused)
        way = _mended(trying, ways.setdefault(one.gpu, []))
        if way is None:
            beyond.add(one.gpu)
        else:
            done[one.gpu, one.gpus] = _after(one, way)
    return tuple(done[one.gpu, one.gpus] for one in failing if (one.gpu, one.gpus) in done)


def _mended(trying: Trying, known: list[tuple[Edit, ...]]) -> Suggestion | None:
    for edits in known:
        found = trying.edited(*edits)
        if found is not None and found.fits:
            return found
    found = kept(trying)
    if found is not None:
        known.append(found.edits)
    return found


def _after(one: Choice, way: Suggestion) -> Choice:
    figures = {name: getattr(way.after, name) for name in FIGURES}
    return one._replace(
        word="fits", changes={**one.changes, **way.changes}, mended=way.title, **figures
    )


FIGURES = (
    *("device_bytes", "budget_bytes", "worst", "step_seconds", "low_seconds", "high_seconds"),
    *("usd_run", "low_usd", "high_usd"),
)
"""What a choice and an outcome both have."""


Goal = Literal["usd_run", "step_seconds"]
ENDS: dict[Goal, tuple[str, str]] = {
    "usd_run": ("low_usd", "high_usd"),
    "step_seconds": ("low_seconds", "high_seconds"),
}


def best(found: Sequence[Choice], goal: Goal) -> tuple[Choice, tuple[Choice, ...]] | None:
    """The least of all that fit, and the others that it is not less than beyond their error."""
    able = [one for one in found if one.word == "fits" and getattr(one, goal) is not None]
    if not able:
        return None
    first = min(able, key=lambda one: getattr(one, goal))
    low, high = ENDS[goal]
    most = getattr(first, high)
    ties = (one for one in able if one is not first)
    return first, tuple(one for one in ties if most is None or getattr(one, low) <= most)


def smallest(found: Sequence[Choice]) -> Choice | None:
    """The fewest GPUs that it fits on; of those the one with the least memory."""
    able = [one for one in found if one.word == "fits"]
    return min(able, key=lambda one: (one.gpus, one.budget_bytes or 0), default=None)
