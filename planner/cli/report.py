"""``python -m planner report PLAN --output FILE``: one page for whoever approves the run."""

from __future__ import annotations

import argparse
import datetime as dt
from contextlib import closing
from pathlib import Path

from planner.cli import plan_argument
from planner.cli.answer import headed, may_fail, own_comparisons, status
from planner.cli.recommend import after_dry_runs
from planner.dryrun.ask.answer import DryRun
from planner.plan import Plan
from planner.plan.query import CALIBRATION, to_query_string
from planner.search import Found, Wish, search
from planner.search.wish import GOALS
from planner.trial.ask.result import TrialResult


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    plan_argument.takes_plan(parser)
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help="write the HTML here"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="do the dry run if none is stored; takes seconds, no GPU",
    )
    parser.add_argument(
        "--recommend",
        choices=[goal for goal in GOALS if goal != "deadline"],
        default="",
        help="also show the plans that `recommend` finds for this goal",
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    may_fail(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the page; the exit status is by the estimate's verdict.

    A stored dry run and the plan's last trial on this machine stand on it beside the estimate.
    """
    from planner import estimate, recommend
    from planner.plan.facts import holding
    from planner.report import Advice, content_of, html_of
    from planner.trial.evidence.stated_error import stated

    file: Path = arguments.output
    if file.exists() and not arguments.force:
        raise ValueError(f"--output: {file} exists. Choose another file, or give --force.")
    asked = plan_argument.require_asked(arguments.plan, arguments.model)
    plan_argument.for_estimates(asked, CALIBRATION)
    plan = asked.plan
    own = own_comparisons(plan.method)
    footprint = stated(estimate(plan, holding(asked.benchmark, plan)), own)
    content = content_of(
        footprint,
        made=dt.date.today(),
        dry_run=_dry_run(plan, arguments.dry_run),
        trial=_trial(plan),
        advice=[Advice(one.title, one.sentence) for one in recommend(footprint)],
        search=_search(asked, arguments.recommend, arguments.dry_run),
        link=f"?{to_query_string(plan, short=True, benchmark=asked.benchmark)}",
    )
    file.write_text(html_of(content), encoding="utf-8")
    print("\n".join(headed(footprint)))
    print(f"Report: {file}")
    return status(arguments, footprint.verdict.word)


def _search(asked: plan_argument.Asked, goal: str, execute: bool) -> Found | None:
    """Three plans for a goal, the one to take after its dry run."""
    if not goal:
        return None
    from planner.launch.export import scripted

    wish = Wish(goal=goal, framework=scripted(asked.plan, asked.chosen)).keeping(asked.chosen)
    found = search(asked.plan, wish, speeds=asked.benchmark)
    return after_dry_runs(found, execute)


def _dry_run(plan: Plan, execute: bool) -> DryRun | None:
    """The stored answer, or one that is executed now where that was asked for."""
    from planner.dryrun.ask.port import Port

    with closing(Port()) as port:
        found = port.remembered(plan)
        return port.run(plan) if found is None and execute else found


def _trial(plan: Plan) -> TrialResult | None:
    """The plan's last trial on this machine."""
    from planner.ui.trial.found import newest_of

    return newest_of(plan)
