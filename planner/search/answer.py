"""A wish answered: three plans with their estimates, the front, ties, misses, what was left out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from planner.estimate import estimate
from planner.launch.export import following, obstacles
from planner.launch.launch import CannotExpress
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.facts import holding
from planner.plan.frameworks import exported
from planner.search.check import lead
from planner.search.found import Found, Judged, Name, Point, Recommendation, Tie
from planner.search.judging import Judge, rows_of, run_hours
from planner.search.misses import misses
from planner.search.options import space_of
from planner.search.pool import MOST_GIVEN_UP, Candidate, Pool
from planner.search.space import Space
from planner.search.staged import Progress, Staged
from planner.search.tiers import NAMES, Placed, gives_up, no_better
from planner.search.wish import GOALS, Wish
from planner.search.words import (
    against,
    bend,
    knee,
    launched,
    read_gpus,
    same,
    trade_offs,
    why,
)
from planner.speeds import Speeds
from planner.units import read_count, read_seconds, read_usd

MOST_TIES, MOST_POINTS = 5, 60
MONEY = ("cheapest", "deadline")
"""Goals that are about dollars."""


def search(
    plan: Plan,
    wish: Wish,
    progress: Progress | None = None,
    *,
    speeds: Speeds | None = None,
    judge: Judge = rows_of,
) -> Found:
    """The three plans that meet a wish best, by estimates alone.

    Args:
        plan: the person's; what the wish does not free stays.
        wish: goal, free fields and limits.
        progress: told what is being done and which share is done; may raise to give up.
        speeds: a benchmark's shares of the card's peaks, for plans of that card.
        judge: judges combinations; other processes where it is theirs.

    Raises:
        ValueError: naming a field of the wish that cannot be met.
    """

    def run(asked: Plan, what: Wish) -> Staged:
        space = space_of(_exportable(asked, what), what)
        pool = Pool(space.plan, what, asked)
        found = Staged(space, what, pool, judge, speeds, progress or (lambda doing, share: None))
        found.run()
        return found

    def would(asked: Plan, what: Wish) -> Plan | None:
        found = run(asked, what)
        one = found.winner("balanced") or found.winner("aggressive")
        return None if one is None else found.space.made(one.changes)

    began = time.perf_counter()
    found = run(plan, wish)
    space, pool = found.space, found.pool
    winners = _worth(wish, found)
    recommended = _recommended(plan, wish, space, winners, speeds)
    bent, words = _knee(plan, found, recommended, speeds)
    return Found(
        plan=plan,
        wish=wish,
        recommendations=(*recommended, *bent),
        same=same(recommended),
        knee=words,
        front=_front(plan, found),
        misses=() if winners else misses(plan, wish, space, pool, would),
        ties=_ties(plan, space, pool, {one.name: winners[one.name] for one in recommended}),
        left_out=(*space.left_out, *found.left),
        judged=Judged(
            plans=pool.plans,
            combinations=pool.combinations,
            seconds=time.perf_counter() - began,
        ),
    )


def _worth(wish: Wish, found: Staged) -> dict[Name, Candidate]:
    """Each tier's best; a safer one's where less margin buys nothing."""
    own: dict[Name, tuple[Placed, Candidate]] = {}
    for name in NAMES:
        one = found.winner(name)
        if one is None:
            continue
        placed = (name, one.line)
        safer = (each for each in own.values() if no_better(wish, placed, each[0]))
        own[name] = next(safer, (placed, one))
    return {name: one for name, (_, one) in own.items()}


def _exportable(plan: Plan, wish: Wish) -> Plan:
    """The plan as the framework's script can say it, where fields that nobody keeps allow it.

    Raises:
        ValueError: the wish is for another framework than the plan's, and that one cannot run it.
    """
    framework = wish.framework or plan.framework
    if framework not in exported():
        return plan
    kept = [name for name in Plan.model_fields if name in wish.keep and name != "framework"]
    try:
        return following(plan, framework, kept)
    except CannotExpress as error:
        if framework == plan.framework:
            return plan
        first = error.obstacles[0]
        raise ValueError(f"framework: {first.why} {first.fix}") from error


def _made(space: Space, one: Candidate) -> Plan:
    found = space.made(one.changes)
    assert found is not None, one.changes
    return found


def _recommended(
    plan: Plan,
    wish: Wish,
    space: Space,
    winners: Mapping[Name, Candidate],
    speeds: Speeds | None,
) -> tuple[Recommendation, ...]:
    """The three, safest first; those that are the same plan are one."""
    named: dict[Plan, list[Name]] = {}
    for name, one in winners.items():
        named.setdefault(_made(space, one), []).append(name)
    return tuple(
        _recommendation(plan, made, names, GOALS[wish.goal].best, speeds)
        for made, names in named.items()
    )


def _recommendation(
    plan: Plan, made: Plan, names: Sequence[Name], best: str, speeds: Speeds | None
) -> Recommendation:
    footprint = estimate(made, holding(speeds, made))
    return Recommendation(
        name=names[0],
        also=tuple(names[1:]),
        plan=made,
        footprint=footprint,
        why=why(names[0], best, footprint),
        differences=differences(dict(plan), dict(made)),
        trade_offs=trade_offs(plan, made),
        launch=launched(made),
    )


def _knee(
    plan: Plan,
    found: Staged,
    recommended: Sequence[Recommendation],
    speeds: Speeds | None,
) -> tuple[tuple[Recommendation, ...], str]:
    """The plan at the knee, where it is another one, and the sentence that says what it buys.

    A point that gives up more of the training than the plan to take is no alternative to it.
    """
    if not recommended:
        return (), ""
    taken = lead(recommended)
    changed = {one.field: one.after for one in taken.differences}
    alike = _front(plan, found, gives_up(plan, changed))
    if len(alike) < 2:
        return (), ""
    point = knee(alike)
    made = plan.changed(**point.changes)
    own = next((one for one in recommended if one.plan == made), None)
    buys = against(point, taken)
    if own is not None or not buys:
        return (), bend(own or taken, buys if own is not taken else "")
    words = f"{read_gpus(made)}: {buys}"
    best = f"Knee of the Pareto front, {words};"
    return (
        _recommendation(plan, made, ("knee",), best, speeds),
    ), f"Knee of the Pareto front: {words} than the {taken.called} plan."


def _front(plan: Plan, found: Staged, most: int = MOST_GIVEN_UP) -> tuple[Point, ...]:
    said = [one for one in found.pool.front(most) if found.expressible(one.changes)]
    return tuple(_point(plan, found.space, one) for one in said[:MOST_POINTS])


def _changes(plan: Plan, made: Plan) -> dict[str, Any]:
    return {change.field: change.after for change in differences(dict(plan), dict(made))}


def _point(plan: Plan, space: Space, one: Candidate) -> Point:
    made, figures = _made(space, one), one.figures
    seconds = figures["seconds"]
    hours, low, high = (
        run_hours(figures[f"{end}seconds"], figures[f"{end}between_seconds"], plan.steps)
        for end in ("", "low_", "high_")
    )
    return Point(
        changes=_changes(plan, made),
        usd=figures["usd"],
        low_usd=figures["low_usd"],
        high_usd=figures["high_usd"],
        seconds=seconds,
        low_seconds=figures["low_seconds"],
        high_seconds=figures["high_seconds"],
        hours=hours,
        low_hours=low,
        high_hours=high,
        gpu=made.gpu,
        gpus=made.gpus,
        word=("fits", "tight", "out of memory")[int(figures["code"])],
    )


APART = ("gpu", "gpus", "rollout", "finetuning", "sharding", "offload", "gradient_checkpointing")
"""What a person would tell two plans apart by."""


def _ties(
    plan: Plan, space: Space, pool: Pool, winners: Mapping[Name, Candidate]
) -> tuple[Tie, ...]:
    """Other plans whose interval meets the winner's, one for each that a person tells apart."""
    found: list[Tie] = []
    for name, winner in winners.items():
        own = _made(space, winner)
        seen = {tuple(getattr(own, field) for field in APART)}
        for one in pool.best[name]:
            if not _meets(one, winner, pool.wish.goal):
                continue
            made = _made(space, one)
            if space.framework and obstacles(made, space.framework):
                continue
            key = tuple(getattr(made, field) for field in APART)
            if key in seen or len(found) >= MOST_TIES * len(winners):
                continue
            seen.add(key)
            found.append(_tie(plan, name, made, one, winner))
            if sum(tie.of == name for tie in found) >= MOST_TIES:
                break
    return tuple(found)


def _meets(one: Candidate, winner: Candidate, goal: str) -> bool:
    """Whether their intervals meet: of dollars where the goal is about them, else of time."""
    a, b = one.figures, winner.figures
    figure = "usd" if goal in MONEY and a["usd"] == a["usd"] else "seconds"
    low, high = f"low_{figure}", f"high_{figure}"
    return bool(a[low] <= b[high] and b[low] <= a[high])


def _tie(plan: Plan, name: Name, made: Plan, one: Candidate, winner: Candidate) -> Tie:
    a, b = one.figures, winner.figures
    spare = (b["device_bytes"] / b["budget_bytes"]) - (a["device_bytes"] / a["budget_bytes"])
    more = "more" if spare >= 0 else "less"
    usd = "" if a["usd"] != a["usd"] else f", {read_usd(a['usd'])} the run"
    trades = len(trade_offs(plan, made))
    return Tie(
        of=name,
        changes=_changes(plan, made),
        figure=f"{read_seconds(a['seconds'])} a step{usd}",
        apart=f"{abs(spare):.0%} of the card {more} free; "
        + (f"{read_count(trades, 'trade-off')}" if trades else "no trade-off"),
    )
