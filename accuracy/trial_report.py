"""What a file of :mod:`accuracy.trials` says: signed errors of predictions. No torch.

Committed files are ``accuracy/measured/trials-*.json``. Three questions: how far the dry run is
from a trial of the same plan; how far a prediction is that another trial of the same group corrects
phase by phase; how far a whole model is from what two shallow ones said of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from accuracy.gpu_report import spread
from accuracy.trials import stored
from planner.trial.ask.footprints import FootprintFigures
from planner.trial.ask.result import TrialResult, read_result

FOLDER = Path(__file__).parent / "measured"
Quantity = Literal["memory", "time"]
Question = Literal["same plan", "from another trial", "from shallower models"]
TARGETS: Mapping[tuple[Question, Quantity], float] = {
    ("from another trial", "memory"): 0.005,
    ("from another trial", "time"): 0.05,
    ("from shallower models", "memory"): 0.02,
    ("from shallower models", "time"): 0.07,
}
"""Largest absolute medians that the project aims at."""
DEFAULT_SECONDS = 60.0
"""That a default trial of a 7B plan may take, imports included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One predicted number of a whole step beside the measured one."""

    case: str
    method: str
    part: str
    question: Question
    quantity: Quantity
    predicted: float
    measured: float

    @property
    def signed(self) -> float:
        """Relative error; negative where the prediction is too low."""
        return self.predicted / self.measured - 1


def files(folder: Path = FOLDER) -> list[tuple[str, list[dict[str, Any]]]]:
    """Card and rows of every committed file of trials on a GPU."""
    found = sorted(folder.glob("trials-*.json"))
    return [(str(json.loads(path.read_text("utf-8"))["gpu"]), list(stored(path))) for path in found]


def errors(rows: Iterable[Mapping[str, Any]]) -> list[Error]:
    """Every comparison of trials that were completed and not censored."""
    kept = [
        (row, result)
        for row in rows
        if (result := read_result(json.dumps(row["result"]))).status == "completed"
        and not result.censored
    ]
    groups: dict[str, list[tuple[Mapping[str, Any], TrialResult]]] = {}
    for row, result in kept:
        groups.setdefault(row["group"], []).append((row, result))
    found = [one for row, result in kept for one in _same(row, result)]
    for members in groups.values():
        of_part = {row["part"]: (row, result) for row, result in members}
        if "base" in of_part:
            base = of_part.pop("base")[1]
            found += [one for row, result in of_part.values() for one in _led(row, result, base)]
        elif {"whole", "truncated"} <= of_part.keys():
            found += _shallow(*of_part["whole"], of_part["truncated"][1])
    return found


def _same(row: Mapping[str, Any], result: TrialResult) -> Iterator[Error]:
    predicted = _bytes(result.predicted)
    measured = _bytes(result.measured)
    if predicted and measured:
        yield _error(row, result, "same plan", "memory", max(predicted.values()), measured)


def _led(row: Mapping[str, Any], result: TrialResult, base: TrialResult) -> Iterator[Error]:
    """The trial predicted by another one: each phase by measured over predicted of that phase."""
    question: Question = "from another trial"
    own, before, seen = _bytes(result.predicted), _bytes(base.predicted), _bytes(base.measured)
    measured = _bytes(result.measured)
    led = [size * seen[name] / before[name] for name, size in own.items() if before.get(name)]
    if led and measured:
        yield _error(row, result, question, "memory", max(led), measured)
    said, old, took = (_seconds(one) for one in (result.estimated, base.estimated, base.measured))
    real = _seconds(result.measured)
    common = [name for name in real if said.get(name) and old.get(name) and name in took]
    if common:
        led_seconds = sum(said[name] * took[name] / old[name] for name in common)
        yield _error(row, result, question, "time", led_seconds, {n: real[n] for n in common})


def _shallow(row: Mapping[str, Any], whole: TrialResult, truncated: TrialResult) -> Iterator[Error]:
    question: Question = "from shallower models"
    led, measured = _bytes(truncated.measured), _bytes(whole.measured)
    if led and measured:
        yield _error(row, whole, question, "memory", max(led.values()), measured)
    took, real = _seconds(truncated.measured), _seconds(whole.measured)
    common = took.keys() & real.keys()
    if common:
        seconds = sum(took[name] for name in common)
        yield _error(row, whole, question, "time", seconds, {name: real[name] for name in common})


def _error(
    row: Mapping[str, Any],
    result: TrialResult,
    question: Question,
    quantity: Quantity,
    predicted: float,
    measured: Mapping[str, float],
) -> Error:
    """A whole step's error: the largest phase's memory, or all phases' time."""
    return Error(
        case=row["name"],
        method=result.planned().method,
        part=row["part"],
        question=question,
        quantity=quantity,
        predicted=predicted,
        measured=max(measured.values()) if quantity == "memory" else sum(measured.values()),
    )


def _bytes(figures: FootprintFigures | None) -> dict[str, float]:
    """Allocated bytes by phase; a processor's figures have requested ones only."""
    found = {}
    for phase in figures.phases if figures is not None else ():
        size = phase.allocated_bytes or phase.requested_bytes
        if size and phase.rank == "trainer" and phase.source != "estimate":
            found[phase.name] = float(size)
    return found


def _seconds(figures: FootprintFigures | None) -> dict[str, float]:
    phases = figures.phases if figures is not None else ()
    return {one.name: one.seconds for one in phases if one.seconds and one.rank == "trainer"}


ABSENT = """No trial on a GPU has been committed yet. The command that runs 39 of them,
`python -m accuracy.trials --gpu KEY --out accuracy/measured/trials-KEY.json`, stands ready:
its very loop runs in the tests on a CPU. The targets, as medians: after one trial another
length, batch or depth within 0.5 % of memory and 5 % of time; a whole model from two shallower
ones within 2 % and 7 %; a default trial of a 7B plan in 60 seconds."""


def text(found: Sequence[tuple[str, list[dict[str, Any]]]] | None = None) -> str:
    """The section of docs/accuracy.md; it says so where nothing was measured."""
    measured = files() if found is None else found
    if not measured:
        return ABSENT
    return "\n\n".join(_of_file(gpu, rows) for gpu, rows in measured)


def _of_file(gpu: str, rows: Sequence[Mapping[str, Any]]) -> str:
    kept = errors(rows)
    statuses = [row["result"]["status"] for row in rows]
    completed = statuses.count("completed")
    parts = [f"### {gpu}", f"{len(rows)} trials, {completed} of them completed.", _table(kept)]
    for row in rows:
        if row["part"] == "default":
            seconds = float(row["result"]["seconds"])
            met = "met" if seconds <= DEFAULT_SECONDS else "missed"
            parts.append(
                f"{row['name'].capitalize()} took {seconds:.0f} s in all "
                f"(target {DEFAULT_SECONDS:.0f} s: {met})."
            )
    left = [
        f"- {row['name']}: {row['result']['status']}. {row['result']['reason']}".rstrip()
        for row in rows
        if row["result"]["status"] != "completed"
    ]
    return "\n\n".join((*parts, *(("\n".join(left),) if left else ())))


def _kind(one: Error) -> tuple[Question, Quantity]:
    return one.question, one.quantity


def _table(kept: Sequence[Error]) -> str:
    lines = [
        "| prediction | of | cases | median | p5 | p95 | max | target |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for question, quantity in dict.fromkeys(map(_kind, kept)):
        signed = [one.signed for one in kept if _kind(one) == (question, quantity)]
        figures = spread(signed)
        said = " | ".join(f"{100 * value:+.2f} %" for value in figures.values())
        most = TARGETS.get((question, quantity))
        goal = "none"
        if most is not None:
            met = "met" if abs(figures["median"]) <= most else "missed"
            goal = f"median ≤ {100 * most:.1f} %: {met}"
        lines.append(f"| {question} | {quantity} | {len(signed)} | {said} | {goal} |")
    return "\n".join(lines)
