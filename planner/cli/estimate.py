"""``python -m planner estimate PLAN``: the verdict, and each phase's peak."""

from __future__ import annotations

import argparse
import json

from planner.cli import plan_argument
from planner.cli.own_trials import error_line, own_comparisons
from planner.cli.table import table
from planner.footprint import Footprint, to_json
from planner.units import read_gib, read_seconds


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("estimate", help="does the plan fit, and what decides it")
    parser.add_argument("plan", metavar="PLAN", help=plan_argument.HELP)
    parser.add_argument("--json", action="store_true", help="the whole answer as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the estimate; the exit status does not depend on the verdict.

    A link's benchmark and calibration are applied, or refused with the field that they do not
    fit.
    """
    from planner.estimate import estimate

    asked = plan_argument.require_asked(arguments.plan)
    footprint = estimate(asked.plan, asked.benchmark)
    if asked.calibration is not None:
        from planner.trial.evidence.correction import apply

        footprint = apply(asked.calibration, footprint).footprint
    else:
        from planner.trial.evidence.stated_error import stated

        footprint = stated(footprint, own_comparisons(asked.plan.method))
    print(json.dumps(to_json(footprint), indent=2) if arguments.json else _text(footprint))
    return 0


def _text(footprint: Footprint) -> str:
    rows = [
        (
            phase.name,
            phase.rank,
            read_gib(phase.device_bytes),
            "?" if phase.host_bytes is None else read_gib(phase.host_bytes),
            "?" if phase.seconds is None else read_seconds(phase.seconds),
        )
        for phase in footprint.phases
    ]
    header = ("phase", "rank", "GPU GiB", "host GiB", "time")
    step = footprint.step_seconds
    lines = [
        footprint.verdict.sentence,
        "",
        table(header, rows, right=(2, 3, 4)),
        "",
        f"One step: {'time unknown' if step is None else read_seconds(step)}.",
    ]
    lines.append(error_line(footprint))
    doubts = dict.fromkeys((*footprint.blockers, *footprint.warnings))
    lines += [f"warning: {warning}" for warning in doubts]
    lines += [f"note: {note}" for note in footprint.notes]
    return "\n".join(lines)
