"""The history of trials as rows, and two trials side by side. Imports no Streamlit."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from planner.trial.ask.process import TRIALS
from planner.trial.ask.result import TrialResult
from planner.trial.history import Filter, History, Summary
from planner.trial.history.exchange import export
from planner.trial.history.store import Added
from planner.ui.trial.words import LEVELS, NOBODY, share
from planner.units import read_seconds
from planner.wording.choices import spoken
from planner.wording.display import Unit
from planner.wording.fields import short_label

COLUMNS = ["When", "Outcome", "Method", "Model", "Device", "torch", "Took", "Trial"]


def listed(lines: Sequence[Summary]) -> pd.DataFrame:
    """One row per trial, in the order of the lines."""
    rows = [
        (
            line.created.replace("T", " ").removesuffix("Z"),
            f"{line.status}, censored" if line.censored else line.status,
            spoken("method", line.method).partition(" · ")[0],
            line.model,
            line.device_name,
            line.torch_version or NOBODY,
            read_seconds(line.seconds),
            line.id,
        )
        for line in lines
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def side_by_side(first: TrialResult, second: TrialResult, unit: Unit) -> pd.DataFrame:
    """One row per phase of either: measured memory and time of both, and how far they differ.

    Memory is compared at a level that both devices have: reserved bytes on two cards, requested
    bytes otherwise.
    """
    level = LEVELS["cuda" if first.device.kind == second.device.kind == "cuda" else "cpu"]
    sides = [
        {phase.name: phase for phase in one.measured.phases} if one.measured else {}
        for one in (first, second)
    ]
    rows = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        cells = {"Phase": name}
        for what, field, read in (
            ("Memory", level, unit.read),
            ("Time", "seconds", read_seconds),
        ):
            pair = [getattr(side.get(name), field, None) for side in sides]
            cells |= {
                f"{what}, {which}": NOBODY if value is None else read(value)
                for which, value in zip(("first", "second"), pair, strict=True)
            }
            cells[f"{what}, difference"] = _difference(*pair)
        rows.append(cells)
    return pd.DataFrame(rows)


def changed(first: TrialResult, second: TrialResult) -> str:
    """What the second trial has otherwise than the first, in words; empty when nothing."""
    before, after = (one.planned().model_dump() for one in (first, second))
    parts = [
        f"{short_label(field)}: {spoken(field, before[field])} → {spoken(field, after[field])}"
        for field in before
        if before[field] != after[field]
    ]
    if first.device.name != second.device.name:
        parts.insert(0, f"device: {first.device.name} → {second.device.name}")
    versions = [one.environment.versions if one.environment else {} for one in (first, second)]
    parts += [
        f"{name}: {versions[0].get(name, NOBODY)} → {versions[1].get(name, NOBODY)}"
        for name in ("torch", "transformers")
        if versions[0].get(name) != versions[1].get(name)
    ]
    return "; ".join(parts)


def _difference(before: float | None, after: float | None) -> str:
    return share(after / before - 1) if before and after is not None else NOBODY


def exported(history: History, suffix: str, filter: Filter) -> bytes:
    """The file of an export.

    Raises:
        HistoryError: for more trials than an import reads.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"trials{suffix}"
        export(history, file, filter)
        return file.read_bytes()


def imported_words(done: Added) -> str:
    """What an import did."""
    parts = [f"{trials(len(done.added))} added"]
    if done.skipped:
        parts.append(f"{len(done.skipped)} there already")
    if done.differing:
        parts.append(f"{len(done.differing)} there already with other figures, which stay")
    return f"{'; '.join(parts)}."


def trials(count: int) -> str:
    """So many trials, in words."""
    return f"{count} {'trial' if count == 1 else 'trials'}"


def deleted(history: History, identifier: str) -> bool:
    """Delete a trial with its folder; False while it runs."""
    folder = TRIALS.find(identifier)
    if folder is not None and not TRIALS.forget(folder):
        return False
    history.delete([identifier])
    return True
