"""The plans that a search recommends, as rows of a report; those of several names stand once."""

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
    "unchecked": "estimated, unchecked",
}
MOST_CHANGES = 5


class Recommended(NamedTuple):
    """A plan of a search: its figures and how far it was checked, and what it changes."""

    name: str
    figures: str
    changes: str


def recommended(plan: Plan, found: Found) -> tuple[Recommended, ...]:
    """The rows, safest first, for a report of ``plan``."""
    same: dict[Plan, list[Recommendation]] = {}
    for one in found.recommendations:
        same.setdefault(one.plan, []).append(one)
    return tuple(_row(plan, found, each) for each in same.values())


def _row(plan: Plan, found: Found, names: list[Recommendation]) -> Recommended:
    first = names[0]
    (judged,) = compared([(first.name, first.plan)], lambda _: first.footprint)
    figures = figures_of(judged)
    told = ", ".join(one.name for one in names)
    demoted = next((one for one in names if one.checked == "demoted"), first)
    return Recommended(
        name=told[0].upper() + told[1:],
        figures=f"{figures['Verdict']}, {figures['GPU peak']}; {figures['Step time']} a step, "
        f"{figures['Cost of run']} the run; {CHECKED[demoted.checked]}",
        changes="this plan" if first.plan == plan else _changes(found.plan, first.plan),
    )


def _changes(before: Plan, after: Plan) -> str:
    """Settings by their labels, the first few of them."""
    made = differences(dict(before), dict(after))
    said = [f"{short_label(one.field)} {spoken(one.field, one.after)}" for one in made]
    more = len(said) - MOST_CHANGES
    kept = [*said[:MOST_CHANGES], *([f"{more} more"] if more > 0 else [])]
    return ", ".join(kept) or "nothing changes"
