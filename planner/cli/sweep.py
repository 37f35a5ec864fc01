"""``python -m planner sweep PLAN --over field=values``: one row a plan."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

from planner.cli import plan_argument
from planner.cli.answer import may_be_json, show, table
from planner.cli.axes import MAX_POINTS, parse_axis
from planner.plan.link import CALIBRATION
from planner.problem import PlanError, Problem
from planner.units import read_gib, read_seconds

if TYPE_CHECKING:
    import pandas as pd


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
    parser.add_argument(
        "--csv",
        metavar="FILE",
        nargs="?",
        const="-",
        help="every column as CSV, in bytes and seconds; - or nothing prints it",
    )
    may_be_json(parser, "every column as JSON, in bytes and seconds")


def run(arguments: argparse.Namespace) -> int:
    """Prints the table for a person, or all of it as CSV or JSON."""
    from planner.sweep import sweep

    asked = plan_argument.require_asked(arguments.plan, arguments.model)
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
        frame.to_csv(sys.stdout if arguments.csv == "-" else arguments.csv, index=False)
        if arguments.csv != "-":
            print(f"{len(frame):,} rows in {arguments.csv}", file=sys.stderr)
        return 0
    return show(arguments, frame, _json, partial(_text, fields=list(axes)))


def _json(frame: pd.DataFrame) -> Any:
    return json.loads(frame.to_json(orient="records"))


def _text(frame: pd.DataFrame, fields: list[str]) -> str:
    """The swept fields, then the answer; an impossible plan has only its fields."""
    header = (*fields, "verdict", "GPU GiB", "of GiB", "host GiB", "worst phase", "step")
    right = (*range(len(fields)), *(len(fields) + place for place in (1, 2, 3, 5)))
    return table(header, [_row(row, fields) for row in frame.to_dict("records")], right)


def _row(row: dict[Hashable, Any], fields: list[str]) -> tuple[str, ...]:
    own = tuple(f"{row[field]:,}" if _counts(row[field]) else str(row[field]) for field in fields)
    if not row["valid"]:
        return (*own, "impossible", "", "", "", "", "")
    sizes = (read_gib(row[f"{name}_bytes"]) for name in ("device", "budget", "host"))
    seconds = row["step_seconds"]
    step = "?" if math.isnan(seconds) else read_seconds(seconds)
    return (*own, row["verdict"], *sizes, row["worst_phase"], step)


def _counts(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
