"""A recommendation held against its dry run: it agrees, or is demoted with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.plan.frameworks import framework_named
from planner.search.found import Name, Recommendation
from planner.totals.limits import MARGIN
from planner.units import read_gib

if TYPE_CHECKING:
    from planner.dryrun.ask.answer import DryRun

WORDS = {
    "conservative": ("fits",),
    "balanced": ("fits",),
    "aggressive": ("fits", "tight"),
    "knee": ("fits",),
}
"""The verdicts with which a dry run leaves each plan what it is."""


ORDER: tuple[Name, ...] = ("balanced", "conservative", "aggressive", "knee")
"""Which plan is put first, where dry runs have demoted none."""


def lead(recommended: Sequence[Recommendation]) -> Recommendation:
    """The one to take: the balanced one, unless its dry run disagreed; then the next."""
    ranked = sorted(recommended, key=lambda one: min(map(ORDER.index, one.names)))
    return next((one for one in ranked if one.checked != "demoted"), ranked[0])


def followed_up(
    recommended: Sequence[Recommendation], check: Callable[[Recommendation], Recommendation]
) -> tuple[Recommendation, ...]:
    """The recommendations after a check of the one to take; of the next where that demotes it.

    Those of the same plan are checked at once.
    """
    found, tried = tuple(recommended), set()
    while found and (first := lead(found)).checked == "unchecked" and first.plan not in tried:
        tried.add(first.plan)
        found = tuple(check(one) if one.plan == first.plan else one for one in found)
    return found


def checked(recommendation: Recommendation, result: DryRun) -> Recommendation:
    """The recommendation after its plan's dry run.

    It agrees where the verdict with the executed phases is one that its name stands for, and no
    executed phase asks for bytes further from the estimate's than the verdict's margin. Where
    another branch ran than a GPU's, or our step in place of the framework's, nothing is known, and
    it stays unchecked.

    Raises:
        ValueError: the dry run is of another plan.
    """
    if result.footprint.plan != recommendation.plan:
        raise ValueError("result: the dry run is of another plan than the recommendation's.")
    if result.standing.code != recommendation.plan.framework:
        ran = framework_named(recommendation.plan.framework).label
        reason = f"Not verified: {ran}'s own code did not run in this dry run."
        return replace(recommendation, checked="unchecked", reason=reason)
    if result.fallback:
        reason = "Not verified: on this machine the dry run took another code path than a GPU."
        return replace(recommendation, checked="unchecked", reason=reason)
    reason = _disagreement(recommendation, result)
    return replace(recommendation, checked="demoted" if reason else "agrees", reason=reason)


def _disagreement(recommendation: Recommendation, result: DryRun) -> str:
    """Why the dry run does not bear the recommendation out; empty where it does."""
    if result.errors:
        return result.errors[0]
    after = result.footprint
    if after.verdict.word not in WORDS[recommendation.name]:
        return (
            f"The dry run peaks at {read_gib(after.device_bytes)} of "
            f"{read_gib(after.budget_bytes)} GiB in {after.worst.name} (estimate: "
            f"{read_gib(recommendation.footprint.device_bytes)} GiB): {after.verdict.word}."
        )
    for one in result.comparisons:
        if one.difference is not None and abs(one.difference) > 1 - MARGIN:
            return (
                f"In {one.phase} the estimate is {one.difference:+.1%} off the dry run, more than "
                "the margin."
            )
    return ""
