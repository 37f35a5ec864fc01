"""A footprint or a sweep as rows for charts, tables and files. Imports no Streamlit."""

from __future__ import annotations

import csv
import io
from typing import Any

import pandas as pd

from planner.estimate import word_of
from planner.footprint import Footprint, Phase
from planner.ui.display import Unit, interval

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet read a text as a formula."""


def bar_rows(footprint: Footprint, unit: Unit) -> pd.DataFrame:
    """One row per phase and category, in the unit; ``least`` and ``most`` by measured errors."""
    measured = [
        (phase, None if phase.error is None else phase.error.real_bytes(phase.device_bytes))
        for phase in footprint.phases
    ]
    rows = [
        {
            "phase": phase_name(phase.name, phase.rank),
            "category": category,
            "memory": unit.value(size_bytes),
            "total": unit.value(phase.device_bytes),
            "word": phase_word(phase, footprint.budget_bytes),
            "detail": phase.instant,
            "least": unit.value(real[0]) if real else None,
            "most": unit.value(real[1]) if real else None,
        }
        for phase, real in measured
        for category, size_bytes in phase.by_category().items()
    ]
    return pd.DataFrame(rows)


def phase_word(phase: Phase, budget_bytes: int) -> str:
    """The verdict's word for one phase, by what was measured where predictions were too low."""
    word = word_of(phase.device_bytes, budget_bytes, False)
    return "tight" if word == "fits" and phase.most_bytes > budget_bytes else word


def phase_name(name: str, rank: str) -> str:
    """A phase's name, with whose GPU it happens on unless it is the trainer's."""
    return name if rank == "trainer" else f"{name} ({rank} GPU)"


def phase_table(footprint: Footprint, unit: Unit) -> pd.DataFrame:
    """One row per phase: the four totals, host RAM, seconds, the verdict's word."""
    return pd.DataFrame(
        [
            {
                "Phase": phase_name(phase.name, phase.rank),
                "Verdict": phase_word(phase, footprint.budget_bytes),
                "Share of card": phase.device_bytes / footprint.budget_bytes,
                f"Device, {unit.name}": unit.value(phase.device_bytes),
                f"Reserved, {unit.name}": unit.value(phase.reserved_bytes),
                f"Allocated, {unit.name}": unit.value(phase.allocated_bytes),
                f"Requested, {unit.name}": unit.value(phase.requested_bytes),
                f"Host RAM, {unit.name}": None
                if phase.host_bytes is None
                else unit.value(phase.host_bytes),
                "Error": interval(None, None)
                if phase.error is None
                else interval(phase.error.low, phase.error.high),
                "Seconds": phase.seconds,
                "Peak at": phase.instant,
            }
            for phase in footprint.phases
        ]
    )


def as_csv(table: pd.DataFrame) -> str:
    """The table as CSV that a spreadsheet cannot mistake for formulas."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_safe(column) for column in table.columns])
    for row in table.itertuples(index=False):
        writer.writerow([_safe(value) for value in row])
    return text.getvalue()


def _safe(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return "" if not isinstance(value, str) and pd.isna(value) else value
