"""``python -m planner sampling plan``: what density-aware sampling needs, before it runs."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from planner.cli.answer import known, may_be_json, may_fail, show, status, table
from planner.problem import PlanError, Problem
from planner.sampling.plan import FIELDS, SamplingPlan, choices, try_sampling_plan
from planner.sampling.presets import PRESETS
from planner.units import GB, GIB, MIB, read_bytes, read_number, read_seconds

if TYPE_CHECKING:
    from planner.sampling.estimate import SamplingEstimate

SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*(GiB|GB|MiB|)")
UNITS = {"GiB": GIB, "GB": GB, "MiB": MIB, "": 1}
SIZES = ("host_ram", "disk")


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "link", nargs="?", metavar="LINK", help=f"a sampling link, or one of {', '.join(PRESETS)}"
    )
    for field in FIELDS:
        info = SamplingPlan.model_fields[field]
        if field in SIZES:
            kind: dict[str, Any] = {"metavar": "SIZE", "type": _size}
        elif choices(field):
            kind = {"choices": choices(field)}
        else:
            kind = {"metavar": field.upper(), "type": int if info.annotation is int else str}
        parser.add_argument(f"--{field.replace('_', '-')}", help=info.description, **kind)
    may_be_json(parser)
    may_fail(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the estimate; the problems of what was given, with status 2, when it cannot be."""
    from planner.sampling.answer import to_json
    from planner.sampling.estimate import estimate

    found = estimate(_plan(arguments))
    show(arguments, found, to_json, _text)
    return status(arguments, found.word)


def _size(text: str) -> int:
    """Bytes of ``24GiB``, ``64 GB`` or a plain number."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no size; give bytes, or such as 24GiB")
    return round(float(match[1]) * UNITS[match[2]])


def _plan(arguments: argparse.Namespace) -> SamplingPlan:
    from planner.sampling.link import from_query_string

    values: dict[str, Any] = {}
    if arguments.link in PRESETS:
        values = PRESETS[arguments.link][1].model_dump()
    elif arguments.link:
        reading = from_query_string(arguments.link)
        if reading.problems or reading.plan is None:
            raise PlanError(reading.problems)
        values = reading.plan.model_dump()
    given = {field: getattr(arguments, field) for field in FIELDS}
    values |= {field: value for field, value in given.items() if value is not None}
    if not values:
        fix = f"Give a link, --model or --dimensions, or one of {', '.join(PRESETS)}."
        raise PlanError((Problem("plan", "No settings were given.", fix),))
    plan, problems = try_sampling_plan(values)
    if plan is None:
        raise PlanError(problems)
    return plan


def _text(found: SamplingEstimate) -> str:
    rows = [
        (
            stage.label,
            read_bytes(stage.host_bytes),
            known(read_bytes, stage.gpu_bytes),
            known(read_seconds, stage.seconds),
        )
        for stage in found.stages
    ]
    disk, dtype = found.disk, found.plan.dtype
    limit = found.online_prompts
    return "\n".join(
        [
            f"{found.sentence}.",
            f"Recommended: {found.advice.mode or 'no mode'}. {found.advice.reason}",
            "",
            table(("stage", "host RAM", "GPU", "time"), rows, right=(1, 2, 3)),
            "",
            f"Disk: embeddings take {read_bytes(disk.raw.bytes)} in fp32, "
            f"{read_bytes(disk.half.bytes)} in fp16 and {read_bytes(disk.compressed.bytes)} in "
            f"compressed {dtype}; neighbours and weights take {read_bytes(disk.result.bytes)}; "
            f"this plan writes {read_bytes(found.disk_bytes)}.",
            f"Online mode fits up to: {known(read_number, limit)} prompts.",
            *(f"note: {warning}" for warning in found.warnings),
        ]
    )
