"""What the grid of dry runs says of the closed form: signed errors, from the stored dry runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from planner.dryrun.ask.answer import CUBLAS
from planner.estimate import estimate
from planner.footprint import Phase
from planner.plan import Plan
from planner.units import MIB

MEASURED = Path(__file__).with_name("measured") / "closed-form-vs-dry-run.json"
SMALL = 0.001
"""The share up to which a difference counts as none."""
LISTED = 15

INTRODUCTION = """
{plans} plans whose settings are drawn so that every possible pair of values of two settings
occurs in one plan at least ({factors} settings: method, model, fine-tuning, formats,
checkpointing, attention, batch shape, logits, optimizer, reference, reward, rollout, sharding,
offload, lengths, micro-batches and every switch of GRADE and Intuitor; {pairs:,} pairs, beside
{impossible:,} that no valid plan has). `python -m accuracy.grid` draws the plans, runs each one
dry and stores the requested bytes of every executed phase; this page compares them with the
closed form of the moment. The error is the closed form's, signed: negative is too low. Dry run and
closed form leave out cuBLAS's workspaces. The closed form of every model here is derived from its
code: no row uses coefficients measured in dry runs.

Half of the phases differ by at most {p50} in absolute value, and 95 % by at most {p95}. {refused}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One phase of one plan."""

    number: int
    plan: Plan
    phase: Phase
    closed_bytes: int
    dry_bytes: int
    op: str

    @property
    def error(self) -> float:
        """Closed form against dry run, signed and relative."""
        return self.closed_bytes / self.dry_bytes - 1


@cache
def stored(measured: Path = MEASURED) -> dict[str, Any]:
    """The committed dry runs, by ``python -m accuracy.grid``."""
    found: dict[str, Any] = json.loads(measured.read_text("utf-8"))
    return found


@cache
def differences(measured: Path = MEASURED) -> tuple[Difference, ...]:
    """Every executed phase of every plan that ran."""
    return tuple(
        found
        for number, row in enumerate(stored(measured)["rows"])
        if "error" not in row
        for found in of_row(number, row)
    )


EMPTY_BYTES = 4096
"""Less is no model's: a norm, a loss. So the updates of weights that wait in host RAM."""


def of_row(number: int, row: dict[str, Any]) -> Iterator[Difference]:
    """Every executed phase of a stored plan that has something on the GPU."""
    plan = Plan(**row["fields"])
    for phase in estimate(plan).phases:
        workspaces = sum(int(term.bytes) for term in phase.terms if term.name == CUBLAS)
        closed_bytes = phase.requested_bytes - workspaces
        dry = row["phases"].get(phase.name)
        if dry and max(dry["bytes"], closed_bytes) >= EMPTY_BYTES:
            yield Difference(
                number=number,
                plan=plan,
                phase=phase,
                closed_bytes=closed_bytes,
                dry_bytes=dry["bytes"],
                op=dry["op"].removeprefix("aten::"),
            )


def percentile(share: float, measured: Path = MEASURED) -> float:
    """Of the differences in absolute value."""
    return float(np.percentile([abs(item.error) for item in differences(measured)], share))


def text() -> str:
    """The section, without its title."""
    found, data = differences(), stored()
    refused = [row for row in data["rows"] if "error" in row]
    introduction = INTRODUCTION.format(
        plans=len(data["rows"]),
        factors=data["factors"],
        pairs=data["pairs"],
        impossible=len(data["impossible"]),
        p95=percent(percentile(95)),
        p50=percent(percentile(50)),
        refused=f"{len(refused)} plans have no dry run, each with its reason."
        if refused
        else "Every plan ran.",
    )
    parts = [
        introduction,
        *tables(found),
        f"The largest differences (of {len(found):,} phases, {_above(found)} are above 0.1 %):",
        largest(found),
    ]
    parts += [f"- plan {data['rows'].index(row)}: {row['error']}" for row in refused]
    return "\n\n".join(part.strip("\n") for part in parts)


def tables(found: Sequence[Difference]) -> tuple[str, ...]:
    """Percentiles by method, phase and model."""
    return (
        _table("method", found, lambda item: item.plan.method),
        _table("phase", found, lambda item: item.phase.name),
        _table("model", found, lambda item: item.plan.model.split("/")[1]),
    )


def _above(found: Iterable[Difference]) -> str:
    low = sum(item.error < -SMALL for item in found)
    high = sum(item.error > SMALL for item in found)
    return f"{low + high}, {low} of them too low,"


def _table(name: str, found: Sequence[Difference], key: Callable[[Difference], str]) -> str:
    lines = [
        f"| {name} | phases | 5th percentile | median | 95th percentile | lowest | highest |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for value in dict.fromkeys(map(key, found)):
        lines.append(_row(value, [item.error for item in found if key(item) == value]))
    lines.append(_row("**all**", [item.error for item in found]))
    return "\n".join(lines)


def _row(name: str, errors: Sequence[float]) -> str:
    figures = [*np.percentile(errors, [5, 50, 95]), min(errors), max(errors)]
    return f"| {name} | {len(errors)} | " + " | ".join(map(_signed, figures)) + " |"


def largest(found: Sequence[Difference]) -> str:
    """The phases that are furthest apart."""
    lines = [
        "| plan | phase | closed form at | dry run at | difference | MiB |",
        "|---|---|---|---|---:|---:|",
    ]
    for item in sorted(found, key=lambda item: -abs(item.error))[:LISTED]:
        plan = item.plan
        words = f"{item.number}: {plan.method}, {plan.model.split('/')[1]}, {plan.finetuning}"
        more = (item.closed_bytes - item.dry_bytes) / MIB
        lines.append(
            f"| {words} | {item.phase.name} | {item.phase.instant} | {item.op} "
            f"| {_signed(item.error)} | {more:+,.1f} |"
        )
    return "\n".join(lines)


def percent(value: float) -> str:
    """As a person reads it, without a sign."""
    return f"{100 * value:.4f} %"


def _signed(value: float) -> str:
    return f"{100 * value:+.3f} %"
