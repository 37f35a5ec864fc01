"""A dry run bears a recommendation out, or demotes it with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.dryrun.ask.answer import Comparison, DryRun
from planner.dryrun.ask.stand_in import stand_in
from planner.estimate import estimate
from planner.footprint import Footprint, Verdict
from planner.plan import Plan
from planner.search.check import checked
from planner.search.found import Recommendation

PLAN = Plan(model="Qwen/Qwen2.5-1.5B", gpu="h100-80gb", gpus=1)
ESTIMATE = estimate(PLAN)


def _one(name: Any) -> Recommendation:
    return Recommendation(
        name=name, plan=PLAN, footprint=ESTIMATE, why="", differences=(), trade_offs=(), launch=""
    )


def _run(footprint: Footprint = ESTIMATE, dry_bytes: int = 1000, **more: Any) -> DryRun:
    compared = Comparison(
        phase="policy backward", closed_bytes=1000, dry_bytes=dry_bytes, executed=True
    )
    given: dict[str, Any] = {
        "footprint": footprint, "estimate": ESTIMATE, "comparisons": (compared,), "phases": (),
        "timeline": (), "notes": (), "versions": {}, "seconds": 1.0, "standing": stand_in(PLAN, ""),
    }  # fmt: skip
    return DryRun(**{**given, **more})


def _worded(word: Any) -> Footprint:
    return replace(ESTIMATE, verdict=Verdict(word=word, sentence=""))


def test_one_that_agrees_says_so() -> None:
    found = checked(_one("balanced"), _run())
    assert found.checked == "agrees" and found.reason == ""


@pytest.mark.parametrize(
    ("name", "word", "outcome"),
    [
        ("conservative", "tight", "demoted"),
        ("balanced", "tight", "demoted"),
        ("aggressive", "tight", "agrees"),
        ("aggressive", "out of memory", "demoted"),
    ],
)
def test_a_worse_verdict_than_its_name_stands_for_demotes(
    name: str, word: str, outcome: str
) -> None:
    found = checked(_one(name), _run(_worded(word)))
    assert found.checked == outcome
    assert (word in found.reason) == (outcome == "demoted")


def test_a_phase_that_is_further_off_than_the_margin_demotes() -> None:
    found = checked(_one("balanced"), _run(dry_bytes=1200))
    assert found.checked == "demoted" and "-16.7%" in found.reason
    assert checked(_one("balanced"), _run(dry_bytes=1050)).checked == "agrees"


def test_a_fallback_branch_says_nothing() -> None:
    found = checked(_one("balanced"), _run(_worded("tight"), notes=("a fallback ran",)))
    assert found.checked == "unchecked" and "GPU" in found.reason


def test_another_plans_dry_run_is_refused() -> None:
    other = estimate(PLAN.changed(gpus=2, sharding="fsdp2"))
    with pytest.raises(ValueError, match="^result: "):
        checked(_one("balanced"), _run(other))


def test_our_step_in_place_of_a_frameworks_neither_agrees_nor_demotes() -> None:
    plan = PLAN.changed(framework="trl", framework_version="1.16.0", sharding="none")
    closed = estimate(plan)
    one = replace(_one("balanced"), plan=plan, footprint=closed)
    theirs = _run(closed, 2000, standing=replace(stand_in(plan), code="trl"))
    ours = _run(closed, 2000, standing=stand_in(plan, "TRL's own code did not run."))
    assert checked(one, theirs).checked == "demoted"
    found = checked(one, ours)
    assert found.checked == "unchecked" and "TRL's own code did not run" in found.reason
