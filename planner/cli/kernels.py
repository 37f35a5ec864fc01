"""``estimate --explain PHASE``: the kernels behind each cause of a phase's time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from planner.cli.answer import table
from planner.footprint import Footprint, Phase
from planner.problem import PlanError, Problem
from planner.timing.opened import Opened, opened, opened_json
from planner.units import read_seconds
from planner.wording.kernels import (
    KINDS,
    factors,
    how_much,
    measured_shape,
    rests_on,
    runs,
    shape,
    shown,
)

EVERY = "all"
NEAREST = 2
"""Measured rows a kernel in text; JSON has them all."""


def may_explain(parser: argparse.ArgumentParser) -> None:
    """The option that opens a phase's time."""
    parser.add_argument(
        "--explain",
        default="",
        metavar="PHASE",
        help="also the kernels behind a phase's time, each with the measured rows nearest to it: "
        f"a phase's name as the table has it, such as 'policy backward', or {EVERY!r}",
    )


def require_phase(footprint: Footprint, name: str) -> None:
    """``PlanError`` with the phases there are where none has the name."""
    names = [phase.name for phase in footprint.phases if phase.times]
    if name and name != EVERY and name not in names:
        fix = f"Give one of: {', '.join((*names, EVERY))}."
        message = f"{name[:80]!r} is no phase of this plan whose time is known."
        raise PlanError((Problem("--explain", message, fix),))


def _asked(phase: Phase, name: str) -> bool:
    return bool(name) and name in (phase.name, EVERY)


def with_kernels(answer: dict[str, Any], footprint: Footprint, name: str) -> dict[str, Any]:
    """An answer in JSON whose causes of the phase have their kernels, or ``null`` for none."""
    for phase, said in zip(footprint.phases, answer["phases"], strict=True):
        if _asked(phase, name):
            for term, one in zip(phase.times, said["times"], strict=True):
                found = opened(term)
                one["kernels"] = None if found is None else opened_json(found)
    return answer


def explained(footprint: Footprint, name: str) -> Iterator[str]:
    """Lines for a person, longest causes first."""
    for phase in filter(lambda one: _asked(one, name), footprint.phases):
        for term in sorted(phase.times, key=lambda one: -float(one.seconds)):
            if (found := opened(term)) is not None:
                yield ""
                seconds = read_seconds(float(term.seconds))
                yield f"{phase.name}, {term.name} ({term.role}): {seconds}"
                yield from _lines(found)


def _lines(found: Opened) -> Iterator[str]:
    listed = shown(found)
    rows: list[tuple[str, ...]] = []
    for one in listed:
        asked, own = one.asked, one.found
        rows.append(
            (
                f"{KINDS[asked.kind]}, {shape(asked.kind, asked.sizes)}",
                runs(asked.runs),
                read_seconds(own.seconds),
                f"{own.share:.0%}",
                read_seconds(one.seconds),
            )
        )
        for row in own.rows[:NEAREST]:
            words = f"  measured: {measured_shape(asked.kind, row)}"
            rows.append((words, "", read_seconds(row.milliseconds / 1e3), f"{row.share:.0%}", ""))
    header = ("kernel", "runs", "each", "of roofline", "together")
    yield table(header, rows, right=(1, 2, 3, 4))
    yield how_much(found)
    for kind, longest in {one.asked.kind: one for one in reversed(listed)}.items():
        said = factors(longest)
        beyond = f"; beyond its table: {said}" if said else ""
        yield f"{KINDS[kind][0].upper()}{KINDS[kind][1:]}: {rests_on(kind, longest.found)}{beyond}."
    yield f"Source: {listed[0].found.source}."
