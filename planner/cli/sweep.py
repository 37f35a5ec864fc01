"""``python -m planner sweep PLAN --over field=values``: one row a plan."""

from __future__ import annotations

import argparse
import math
import sys

from planner.cli import plan_argument
from planner.cli.axes import MAX_POINTS, parse_axis
from planner.plan.link import CALIBRATION
from planner.problem import PlanError, Problem


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    plan_argument.takes_plan(parser)
    parser.add_argument(
        "--over",
        metavar="FIELD=VALUES",
        action="append",
        required=True,
        help="512:16384 doubles, 1:9:5 takes 5 even steps, 1,2,8 is a list; may be repeated",
    )
    parser.add_argument("--csv", metavar="FILE", help="write CSV here instead of printing it")


def run(arguments: argparse.Namespace) -> int:
    """Prints or writes the table as CSV."""
    from planner.sweep import sweep

    asked = plan_argument.require_asked(arguments.plan)
    plan_argument.for_estimates(asked, CALIBRATION)
    axes = dict(parse_axis(text) for text in arguments.over)
    if len(axes) < len(arguments.over):
        raise PlanError((Problem("--over", "A field is swept twice.", "Name each field once."),))
    points = math.prod(len(values) for values in axes.values())
    if points > MAX_POINTS:
        message = f"That is {points:,} plans; one sweep has at most {MAX_POINTS:,}."
        raise PlanError((Problem("--over", message, "Take fewer values."),))
    frame = sweep(asked.plan, axes, asked.benchmark)
    if arguments.csv:
        frame.to_csv(arguments.csv, index=False)
        print(f"{len(frame):,} rows in {arguments.csv}", file=sys.stderr)
    else:
        print(frame.to_csv(index=False), end="")
    return 0
