"""The section of docs/accuracy.md about whole RL cards, by phase."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from accuracy.colocated.compare import Compared, compared
from accuracy.colocated.runs import GENERATION, TRAINING, fields, file, rows
from planner.units import GIB

INTRODUCTION = """
{count} device peaks that AgileRL's authors measured by NVML ({source}; {licence}; figures only,
`accuracy/colocated/runs.json`): a LoRA GRPO trainer and a colocated vLLM in one process, on two
cards. *Generation* is a process's first rollout, and *training* is its first update. No constant of
the planner comes from these peaks.

*Cold* is what the tool says: the most device bytes of the phases that a measured one covers.
*Given* puts the row's own `sleeping_baseline_bytes` (what the driver saw just before the update:
context, sleeping engine) in place of what the estimate counts outside the trainer's allocator.
*Completed* is that of a first update, whose optimizer has no state before its first step.
"""

LARGEST = 8
"""Rows listed with their cause, of each phase and prediction."""


@cache
def found() -> tuple[Compared, ...]:
    """Every measured phase, compared."""
    return tuple(compared(row) for row in rows())


def text() -> str:
    """The section."""
    example = fields(rows()[0])
    parts = [
        INTRODUCTION.format(
            count=len(rows()), source=file()["source"].rstrip("."), licence=file()["licence"]
        ),
        _groups(),
        _above(),
        f"The rows with the largest errors:\n\n{_furthest()}",
        "Every row is planned as this one is: `"
        + ", ".join(f"{key}={value}" for key, value in example.items())
        + "`.",
    ]
    return "\n\n".join(part.strip("\n") for part in parts)


def _groups() -> str:
    lines = [
        "| model and card | phase | prediction | rows | mean | mean of size | lowest | highest |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for model, card in dict.fromkeys((item.row.model, item.row.card) for item in found()):
        for phase in (GENERATION, TRAINING):
            for name in ("cold", "given", "completed"):
                errors = _errors(model, card, phase, name)
                if errors:
                    where = f"{model.split('/')[-1]}, {card} | {phase}"
                    lines.append(f"| {where} | {name} | {len(errors)} | {_shown(errors)} |")
    for name in ("cold", "given", "completed"):
        errors = [e for phase in (GENERATION, TRAINING) for e in _errors("", "", phase, name)]
        lines.append(f"| **all** | | {name} | {len(errors)} | {_shown(errors)} |")
    return "\n".join(lines)


def _shown(errors: Sequence[float]) -> str:
    told = (np.mean(errors), np.mean(np.abs(errors)), np.min(errors), np.max(errors))
    return " | ".join(_percent(float(one)) for one in told)


def _above() -> str:
    """How many rows the driver saw above the cold estimate's upper bound."""
    above = sum(item.row.device_peak_bytes > item.high for item in found())
    wide = float(np.median([item.high / item.cold - 1 for item in found()]))
    return (
        f"Rows whose measured peak exceeds the cold estimate's upper bound: {above} of "
        f"{len(found())}. The median distance of that bound from the centre is {_percent(wide)}."
    )


def _errors(model: str, card: str, phase: str, name: str) -> list[float]:
    return [
        item.error(size)
        for item in found()
        if item.row.phase == phase
        and (not model or (item.row.model, item.row.card) == (model, card))
        and (size := getattr(item, name)) is not None
    ]


def _percent(error: float) -> str:
    return f"{100 * error:+.1f} %"


def _furthest() -> str:
    lines = [
        "| row | prediction | measured, GiB | predicted | error | peak | cause |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    lines += _listed([item for item in found() if item.row.phase == GENERATION], "cold")
    training = [item for item in found() if item.row.phase == TRAINING]
    lines += _listed(training, "cold")
    lines += _listed(training, "given")
    return "\n".join(lines)


def _listed(items: Sequence[Compared], name: str) -> list[str]:
    def off(item: Compared) -> float:
        return abs(item.error(getattr(item, name)))

    return [
        f"| {item.row.words} | {name} | {item.row.device_peak_bytes / GIB:.2f} "
        f"| {getattr(item, name) / GIB:.2f} | {_percent(item.error(getattr(item, name)))} "
        f"| {item.where} | {_cause(item, name)} |"
        for item in sorted(items, key=off, reverse=True)[: LARGEST // 2]
    ]


def _cause(item: Compared, name: str) -> str:
    row = item.row
    if row.phase == GENERATION:
        told, seen = (size - item.share for size in (item.cold, row.device_peak_bytes))
        return (
            f"besides the {item.share / GIB:.2f} GiB that vLLM reserves, {told / GIB:+.2f} are "
            f"counted, {seen / GIB:+.2f} were measured"
        )
    if name == "cold":
        assert row.sleeping_baseline_bytes is not None
        return (
            f"{item.outside / GIB:.2f} GiB counted outside the trainer's allocator, "
            f"{row.sleeping_baseline_bytes / GIB:.2f} were there"
        )
    said = [f"{added.why} ({added.bytes / GIB:+.2f} GiB)" for added in item.additions]
    rest = item.error(item.completed or 0)
    return "; ".join([*said, f"left after these: {_percent(rest)}, held by the allocator"])
