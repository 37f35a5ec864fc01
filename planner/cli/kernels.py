"""``estimate --explain PHASE``: what a phase's time, a step and a run come from.

Each cause of a phase opens to its formula with the plan's numbers, its source and, where tables
decide it, its kernels with the measured rows behind them; a step and a run to what they yield.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planner.cli.answer import table
from planner.cost import cost
from planner.footprint import Footprint, Phase
from planner.problem import PlanError, Problem
from planner.throughput import read_figure, throughput
from planner.timing.opened import Opened, opened, opened_json
from planner.timing.step import OVERLAPPED, seconds_of
from planner.units import read_seconds, read_seconds_between
from planner.wording.display import put_in
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

EVERY, YIELDS = "all", "step"
NEAREST = 2
"""Measured rows a kernel in text; JSON has them all."""
WRITTEN = ("US dollars", "share of the peak")
"""Units that a figure's own text has."""


def may_explain(parser: argparse.ArgumentParser) -> None:
    """The option that opens a phase's time."""
    parser.add_argument(
        "--explain",
        default="",
        metavar="PHASE",
        help="also what a phase's time comes from: each cause's formula, numbers and source, and "
        "the kernels behind it with the measured rows nearest to them. A phase's name as the table "
        f"has it, such as 'policy backward'; {YIELDS!r} for what a step and the run yield and "
        f"cost; or {EVERY!r}",
    )


def require_phase(footprint: Footprint, name: str) -> None:
    """``PlanError`` with the phases there are where none has the name."""
    names = [phase.name for phase in footprint.phases if phase.times]
    if name and name not in (*names, YIELDS, EVERY):
        fix = f"Give one of: {', '.join((*names, YIELDS, EVERY))}."
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
        lasting = [term for term in phase.times if float(term.seconds)]
        for term in sorted(lasting, key=lambda one: -float(one.seconds)):
            yield ""
            seconds = read_seconds(float(term.seconds))
            yield f"{phase.name}, {term.name} ({term.role}): {seconds}"
            yield from _formula(term.formula, term.inputs, term.source, term.ignores)
            if (found := opened(term)) is not None:
                yield from _lines(found)
    if name in (YIELDS, EVERY):
        yield from _step(footprint)
        for figure in throughput(footprint, cost(footprint)).values():
            yield ""
            unit = "" if figure.rate.unit in WRITTEN else f" {figure.rate.unit}"
            yield f"{figure.name}: {read_figure(figure)}{unit}"
            of = figure.rate
            yield from _formula(of.expression, figure.inputs, of.source, of.ignores)


def _step(footprint: Footprint) -> Iterator[str]:
    """Which phases a step's seconds are, and which of them run at the same time."""
    if footprint.step_seconds is None:
        return
    overlap = footprint.plan.rollout_overlap
    spent = [phase for phase in footprint.phases if phase.per_step and phase.seconds]
    both = [phase for phase in spent if phase.kind.stops_both]
    sides = [
        [phase for phase in spent if (phase.rank == "rollout") is own and phase not in both]
        for own in (True, False)
    ]
    if overlap in OVERLAPPED and all(sides):
        engine, trainer = (_added(side, waits=overlap != "asynchronous") for side in sides)
        parts = [f"the longer of {engine} and {trainer}", *map(_named, both)]
    else:
        parts = [_added(spent)]
    between = footprint.low_seconds, footprint.high_seconds
    yield ""
    yield f"one step: {read_seconds_between(footprint.step_seconds, *between)}"
    yield f"  = {' + '.join(parts)}"
    if footprint.doubt is not None:
        yield f"  Interval: {footprint.doubt.words}"


def _added(phases: Iterable[Phase], *, waits: bool = True) -> str:
    return " + ".join(_named(phase, waits=waits) for phase in phases)


def _named(phase: Phase, *, waits: bool = True) -> str:
    """A phase's seconds; those of an engine that never waits without what it waits elsewhere."""
    seconds, waiting = phase.seconds or 0.0, seconds_of(phase.times)[1]
    if waits or not waiting:
        return f"{phase.name} {read_seconds(seconds)}"
    own = read_seconds(seconds - waiting)
    return f"{phase.name} {own}, never waiting for a batch to end,"


def _formula(
    expression: str, inputs: Mapping[str, Any], source: str, ignores: str
) -> Iterator[str]:
    yield f"  = {expression}"
    yield f"  = {put_in(expression, inputs)}"
    yield f"  Source: {source}.{f' Left out: {ignores}.' if ignores else ''}"


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
