"""``python -m planner compare PLAN PLAN …``: plans beside each other, and what sets them apart."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from planner.answer import ANSWER_VERSION
from planner.cli import plan_argument
from planner.cli.answer import DOES_NOT_FIT, may_be_json, may_fail, show, table
from planner.comparison import (
    Compared,
    Effect,
    compared,
    differing,
    distinct,
    effects,
    figures_of,
    read_moved,
    summary,
)
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.pin import MOST
from planner.plan.query import CALIBRATION
from planner.problem import PlanError, Problem
from planner.throughput import answer_json
from planner.wording.choices import spoken
from planner.wording.fields import short_label


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "plans",
        metavar="PLAN",
        nargs="+",
        help=f"two to {MOST}, each {plan_argument.HELP}; or a file of several, as the Compare "
        "page saves it",
    )
    may_be_json(parser)
    may_fail(parser, "none of the plans fits")


def run(arguments: argparse.Namespace) -> int:
    """Prints the comparison; 3 when none of the plans fits.

    A benchmark that comes with one of the plans is held against every plan of its card.
    """
    from planner.estimate import estimate
    from planner.plan.facts import holding

    asked = plan_argument.require_several(arguments.plans)
    if not 2 <= len(asked) <= MOST:
        raise PlanError((Problem("plans", f"{len(asked)} given.", f"Give 2 to {MOST}."),))
    for _, one in asked:
        plan_argument.for_estimates(one, CALIBRATION)
    speeds = next((one.benchmark for _, one in asked if one.benchmark is not None), None)

    @cache
    def estimated(plan: Plan) -> Footprint:
        return estimate(plan, holding(speeds, plan))

    names = distinct([name for name, _ in asked])
    named = [(name, one.plan) for name, (_, one) in zip(names, asked, strict=True)]
    plans = compared(named, estimated)
    first = plans[0]
    apart = [(first, one, effects(first.plan, one.plan, estimated)) for one in plans[1:]]
    show(arguments, (plans, apart), _json, _text)
    fits = any(one.runs for one in plans)
    return 0 if fits or arguments.exit_zero else DOES_NOT_FIT


Apart = tuple[Compared, Compared, tuple[Effect, ...]]


def _json(found: tuple[Sequence[Compared], Sequence[Apart]]) -> dict[str, Any]:
    plans, apart = found
    return {
        "v": ANSWER_VERSION,
        "summary": summary(plans),
        "plans": [{"name": one.name, **answer_json(one.footprint)} for one in plans],
        "differences": [
            {"field": one.field, "label": short_label(one.field), "values": one.values}
            for one in differing([one.plan for one in plans])
        ],
        "effects": [
            {
                "from": before.name,
                "to": after.name,
                "fields": [change.field for change in effect.changes],
                "matters": effect.matters,
                "alone": effect.alone and asdict(effect.alone),
                "last": effect.last and asdict(effect.last),
            }
            for before, after, found in apart
            for effect in found
        ],
    }


def _text(found: tuple[Sequence[Compared], Sequence[Apart]]) -> str:
    plans, apart = found
    names = [one.name for one in plans]
    figures = [figures_of(one) for one in plans]
    rows = [(label, *(each[label] for each in figures)) for label in figures[0]]
    settings = [
        (short_label(one.field), *(spoken(one.field, value) for value in one.values))
        for one in differing([one.plan for one in plans])
    ]
    lines = [summary(plans), "", table(("", *names), rows), ""]
    if not settings:
        return "\n".join([*lines, "The plans are the same."])
    lines += [table(("setting", *names), settings)]
    for one in apart:
        lines += ["", *_apart(*one)]
    return "\n".join(lines)


def _apart(before: Compared, after: Compared, found: Sequence[Effect]) -> Iterator[str]:
    yield f"Differences of {after.name} from {before.name}, largest effect first:"
    rows = [_row(one, before, after) for one in found if one.matters]
    if rows:
        header = ("setting", before.name, after.name, "peak", "step", "cost of run", "verdict", "")
        yield table(header, rows, right=(3, 4, 5))
    idle = [short_label(each.field) for one in found if not one.matters for each in one.changes]
    if idle:
        yield f"Settings without an effect above 1%: {', '.join(idle)}."


def _row(effect: Effect, before: Compared, after: Compared) -> tuple[str, ...]:
    telling = effect.telling
    assert telling is not None
    how = f"alone in {before.name}" if telling is effect.alone else f"left out of {after.name}"
    return (
        " + ".join(short_label(one.field) for one in effect.changes),
        " + ".join(spoken(one.field, one.before) for one in effect.changes),
        " + ".join(spoken(one.field, one.after) for one in effect.changes),
        *read_moved(telling),
        how,
    )
