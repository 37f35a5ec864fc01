"""``python -m planner estimate PLAN``: the verdict, and each phase's peak."""

from __future__ import annotations

import argparse

from planner.cli import plan_argument
from planner.cli.answer import error_line, known, may_be_json, own_comparisons, show, table
from planner.footprint import Footprint, to_json
from planner.units import read_gib, read_seconds


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    plan_argument.takes_plan(parser)
    may_be_json(parser)


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
    return show(arguments, footprint, to_json, _text)


def _text(footprint: Footprint) -> str:
    rows = [
        (
            phase.name,
            phase.rank,
            read_gib(phase.device_bytes),
            known(read_gib, phase.host_bytes),
            known(read_seconds, phase.seconds),
        )
        for phase in footprint.phases
    ]
    step = footprint.step_seconds
    doubts = dict.fromkeys((*footprint.blockers, *footprint.warnings))
    lines = [
        footprint.verdict.sentence,
        "",
        table(("phase", "rank", "GPU GiB", "host GiB", "time"), rows, right=(2, 3, 4)),
        "",
        f"One step: {'time unknown' if step is None else read_seconds(step)}.",
        error_line(footprint),
        *(f"warning: {warning}" for warning in doubts),
        *(f"note: {note}" for note in footprint.notes),
    ]
    return "\n".join(lines)
