"""``python -m planner sweep PLAN --over field=values``: one row a plan."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from planner.cli import plan_argument
from planner.cli.answer import may_be_json, show, table
from planner.plan.fieldtext import KINDS, from_text
from planner.plan.query import CALIBRATION, to_query_string
from planner.problem import PlanError, Problem
from planner.units import (
    read_figure_between,
    read_gib,
    read_seconds_between,
    read_share_between,
    read_usd_between,
)

if TYPE_CHECKING:
    import pandas as pd

    from planner.cli.plan_argument import Asked


MAX_POINTS = 100_000

Value = int | float | bool | str


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
        help="write every column as CSV, in bytes and seconds; - or no FILE prints it",
    )
    parser.add_argument(
        "--links",
        action="store_true",
        help="add a link to every possible plan as the last column",
    )
    may_be_json(parser, "every column as JSON, in bytes and seconds")


def run(arguments: argparse.Namespace) -> int:
    """Prints the table for a person, or all of it as CSV or JSON."""
    from planner.sweeps.table import sweep

    asked = plan_argument.require_asked(arguments.plan, arguments.model)
    plan_argument.for_estimates(asked, CALIBRATION)
    axes = dict(parse_axis(text) for text in arguments.over)
    if len(axes) < len(arguments.over):
        raise PlanError((Problem("--over", "A field is swept twice.", "Name each field once."),))
    points = math.prod(len(values) for values in axes.values())
    if points > MAX_POINTS:
        message = f"These values make {points:,} plans; one sweep has at most {MAX_POINTS:,}."
        raise PlanError((Problem("--over", message, "Take fewer values."),))
    frame = sweep(asked.plan, axes, asked.benchmark, phase_seconds=True)
    if arguments.links:
        frame["link"] = [_link(asked, row) for row in frame[[*axes, "valid"]].to_dict("records")]
    if arguments.csv:
        frame.to_csv(sys.stdout if arguments.csv == "-" else arguments.csv, index=False)
        if arguments.csv != "-":
            print(f"{len(frame):,} rows in {arguments.csv}", file=sys.stderr)
        return 0
    return show(arguments, frame, _json, partial(_text, fields=list(axes)))


def _link(asked: Asked, row: dict[Hashable, Any]) -> str:
    if not row.pop("valid"):
        return ""
    plan = asked.plan.changed(**{str(field): value for field, value in row.items()})
    return "?" + to_query_string(plan, short=True, benchmark=asked.benchmark)


def _json(frame: pd.DataFrame) -> Any:
    return json.loads(frame.to_json(orient="records"))


def _text(frame: pd.DataFrame, fields: list[str]) -> str:
    """The swept fields, then the answer; an impossible plan has only its fields."""
    rows = [_row(row, fields) for row in frame.to_dict("records")]
    header = (*fields, *HEADER)
    if "link" in frame:
        rows = [(*row, link) for row, link in zip(rows, frame["link"], strict=True)]
        header = (*header, "link")
    return table(header, rows, (*range(len(fields)), *(len(fields) + n for n in RIGHT)))


HEADER = (
    *("verdict", "GPU GiB", "of GiB", "host GiB", "worst phase"),
    *("step", "tokens/s per GPU", "MFU"),
    *("GPU-hours a step", "GPU-hours of run", "cost a step", "cost of run"),
)
RIGHT = (1, 2, 3, 5, 6, 7, 8, 9, 10, 11)


def _row(row: dict[Hashable, Any], fields: list[str]) -> tuple[str, ...]:
    own = tuple(f"{row[field]:,}" if _counts(row[field]) else str(row[field]) for field in fields)
    if not row["valid"]:
        return (*own, "impossible", *("" for _ in HEADER[1:]))
    sizes = (read_gib(row[f"{name}_bytes"]) for name in ("device", "budget", "host"))
    runs = row["verdict"] in ("fits", "tight")

    def between(name: str) -> tuple[float, ...]:
        return tuple(row[f"{end}{name}"] for end in ("", "low_", "high_"))

    return (
        *own,
        row["verdict"],
        *sizes,
        row["worst_phase"],
        *(
            _known(read, *between(name)) if runs else ""
            for read, name in (
                (read_seconds_between, "step_seconds"),
                (read_figure_between, "tokens_per_second_per_gpu"),
                (read_share_between, "mfu"),
                (read_figure_between, "gpu_hours_per_step"),
                (read_figure_between, "gpu_hours_run"),
                (read_usd_between, "usd_per_step"),
                (read_usd_between, "usd_run"),
            )
        ),
    )


def _known(read: Callable[..., str], value: float, *between: float) -> str:
    return "?" if math.isnan(value) else read(value, *between)


def _counts(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def parse_axis(text: str) -> tuple[str, list[Value]]:
    """The field and its values in order.

    ``field=lo:hi`` doubles lo up to hi and includes hi, ``field=lo:hi:n`` takes n even
    steps, ``field=a,b,c`` is a list.

    Raises:
        PlanError: naming the field and what is accepted.
    """
    field, _, values = text.partition("=")
    field = field.strip()
    if field not in KINDS:
        raise PlanError((Problem(field, f"{field!r} is not a field of a plan.", _USAGE),))
    try:
        points = _range(field, values) if ":" in values else _list(field, values)
    except ValueError as error:
        raise PlanError((Problem(field, f"--over {text[:80]}: {error}.", _USAGE),)) from error
    return field, points


_USAGE = "Write field=512:16384, field=1:9:5 or field=1,2,8."


def _list(field: str, values: str) -> list[Value]:
    points = [_value(field, part) for part in values.split(",")]
    if len(set(points)) != len(points):
        raise ValueError("a value is given twice")
    return points


def _range(field: str, values: str) -> list[Value]:
    if KINDS[field] not in (int, float):
        raise ValueError("only numbers have a range")
    parts = values.split(":")
    if len(parts) not in (2, 3):
        raise ValueError("a range is lo:hi or lo:hi:n")
    low, high = (cast(float, _value(field, part)) for part in parts[:2])
    if low > high:
        raise ValueError("the range runs backwards")
    if len(parts) == 2:
        return _doublings(low, high)
    steps = cast(int, from_text("steps", parts[2]))
    if not 2 <= steps <= MAX_POINTS:
        raise ValueError(f"the number of points must be 2 to {MAX_POINTS}")
    exact = [low + (high - low) * step / (steps - 1) for step in range(steps)]
    return list(dict.fromkeys(map(round, exact) if KINDS[field] is int else exact))


def _doublings(low: float, high: float) -> list[Value]:
    if low <= 0:
        raise ValueError("doubling starts above 0")
    points: list[Value] = []
    while low < high:
        points.append(low)
        low *= 2
    return [*points, high]


def _value(field: str, text: str) -> Value:
    try:
        return from_text(field, text)
    except ValueError as error:
        raise ValueError(f"{text.strip()[:40]!r} {error}") from error
