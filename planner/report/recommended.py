"""The plans that a search recommends, as rows of a report."""

from __future__ import annotations

from typing import NamedTuple

from planner.comparison import compared, figures_of
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.search import Found, Recommendation
from planner.wording.choices import spoken
from planner.wording.fields import short_label

CHECKED = {
    "agrees": "its dry run agrees",
    "demoted": "its dry run disagrees",
    "unchecked": "estimate only",
}
MOST_CHANGES = 5


class Recommended(NamedTuple):
    """A plan of a search: its figures and how far it was checked, and what it changes."""

    name: str
    figures: str
    changes: str


def recommended(plan: Plan, found: Found) -> tuple[Recommended, ...]:
    """The rows, safest first, for a report of ``plan``."""
    return tuple(_row(plan, found, one) for one in found.recommendations)


def _row(plan: Plan, found: Found, one: Recommendation) -> Recommended:
    (judged,) = compared([(one.name, one.plan)], lambda _: one.footprint)
    figures = figures_of(judged)
    return Recommended(
        name=one.called.capitalize(),
        figures=f"{figures['Verdict']}, {figures['GPU peak']}; {figures['Step time']} a step, "
        f"{figures['Cost of run']} the run; {CHECKED[one.checked]}",
        changes="this plan" if one.plan == plan else _changes(found.plan, one.plan),
    )


def _changes(before: Plan, after: Plan) -> str:
    """Settings by their labels, the first few of them."""
    made = differences(dict(before), dict(after))
    said = [f"{short_label(one.field)} {spoken(one.field, one.after)}" for one in made]
    more = len(said) - MOST_CHANGES
    kept = [*said[:MOST_CHANGES], *([f"{more} more"] if more > 0 else [])]
    return ", ".join(kept) or "nothing changes"
