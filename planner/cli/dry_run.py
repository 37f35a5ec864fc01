"""``python -m planner dry-run PLAN``: the real step on tensors without data."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli import plan_argument
from planner.cli.answer import (
    error_line,
    headed,
    may_be_json,
    may_fail,
    own_comparisons,
    show,
    status,
    table,
)
from planner.units import read_count, read_gib

if TYPE_CHECKING:
    from planner.dryrun.ask.answer import DryRun
    from planner.footprint import Footprint


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    plan_argument.takes_plan(parser)
    may_be_json(parser)
    may_fail(parser)
    parser.add_argument(
        "--full-depth",
        action="store_true",
        help="run every layer instead of repeating one block",
    )
    parser.add_argument(
        "--lengths",
        action="store_true",
        help="also run shorter batches and report what the allocator reserves over all of them",
    )
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        type=Path,
        help="write the allocations as a file for pytorch.org/memory_viz",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the dry run beside the estimate; 2 with a sentence when there is no answer."""
    from planner.dryrun.ask.document import dry_run_to_json
    from planner.dryrun.ask.port import Port
    from planner.trial.evidence.stated_error import stated, stated_of

    plan = plan_argument.require_plan(arguments.plan, arguments.model)
    with closing(Port()) as port:
        found = port.run(
            plan,
            full_depth=arguments.full_depth,
            lengths=arguments.lengths,
            snapshot=arguments.snapshot,
        )
    own = own_comparisons(plan.method)
    found = stated_of(found, own)
    if found.otherwise:
        found = replace(found, estimate=stated(found.estimate, own))
    show(arguments, found, dry_run_to_json, _text)
    return status(arguments, _leading(found).verdict.word)


def _leading(found: DryRun) -> Footprint:
    """Whose verdict it is: the dry run's, or where another loss or layout ran the closed form's."""
    return found.estimate if found.otherwise else found.footprint


def _given_back(times: int) -> str:
    """What retries add to the sentence; nothing where there were none."""
    return f", cache freed {read_count(times, 'time')}" * bool(times)


def _text(found: DryRun) -> str:
    from planner.dryrun.ask.finding import finding

    devices = {one.name: one.device_bytes for one in found.estimate.phases}
    rows = [
        (
            one.phase,
            "missing" if one.closed_bytes is None else read_gib(one.closed_bytes),
            ("missing" if one.executed else "not executed")
            if one.dry_bytes is None
            else read_gib(one.dry_bytes),
            "" if one.difference is None else f"{one.difference:+.2%}",
            read_gib(devices[one.phase]) if one.phase in devices else "missing",
            "" if one.dry_bytes is None else read_gib(phase.device_bytes),
        )
        for one, phase in zip(found.comparisons, found.footprint.phases, strict=True)
    ]
    header = (
        *("phase", "requested: closed form GiB", "dry run GiB", "difference"),
        *("GPU: closed form GiB", "dry run GiB"),
    )
    lines = [
        *headed(_leading(found)),
        f"Figures: {'closed form' if found.otherwise else 'dry run'}.",
        "",
        table(header, rows, right=(1, 2, 3, 4, 5)),
        *(f"error: {error}" for error in found.errors),
        "",
        *finding(found),
        error_line(found.footprint),
        *(
            f"Over steps of five lengths, {row['order']}: {read_gib(row['reserved_bytes'])} GiB "
            f"reserved for {read_gib(row['allocated_bytes'])} GiB allocated"
            f"{_given_back(row['alloc_retries'])}."
            for row in found.lengths
        ),
        *(f"note: {note}" for note in found.notes),
    ]
    return "\n".join(lines)
