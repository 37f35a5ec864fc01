"""A footprint or a sweep as rows for charts, tables and files. Imports no Streamlit."""

from __future__ import annotations

import csv
import io
from typing import Any

import pandas as pd

from planner.estimate import word_of
from planner.footprint import Footprint
from planner.ui.display import Unit

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet read a text as a formula."""


def bar_rows(footprint: Footprint, unit: Unit) -> pd.DataFrame:
    """One row per phase and category, in the unit."""
    rows = [
        {
            "phase": phase_name(phase.name, phase.rank),
            "category": category,
            "memory": unit.value(size_bytes),
            "total": unit.value(phase.device_bytes),
            "word": word_of(phase.device_bytes, footprint.budget_bytes, False),
            "detail": phase.instant,
        }
        for phase in footprint.phases
        for category, size_bytes in phase.by_category().items()
    ]
    return pd.DataFrame(rows)


def phase_name(name: str, rank: str) -> str:
    """A phase's name, with whose GPU it happens on unless it is the trainer's."""
    return name if rank == "trainer" else f"{name} ({rank} GPU)"


def phase_table(footprint: Footprint, unit: Unit) -> pd.DataFrame:
    """One row per phase: the four totals, host RAM, seconds, the verdict's word."""
    return pd.DataFrame(
        [
            {
                "Phase": phase_name(phase.name, phase.rank),
                "Verdict": word_of(phase.device_bytes, footprint.budget_bytes, False),
                "Share of card": phase.device_bytes / footprint.budget_bytes,
                f"Device, {unit.name}": unit.value(phase.device_bytes),
                f"Reserved, {unit.name}": unit.value(phase.reserved_bytes),
                f"Allocated, {unit.name}": unit.value(phase.allocated_bytes),
                f"Requested, {unit.name}": unit.value(phase.requested_bytes),
                f"Host RAM, {unit.name}": None
                if phase.host_bytes is None
                else unit.value(phase.host_bytes),
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
