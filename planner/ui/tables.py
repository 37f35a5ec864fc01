"""A footprint or a sweep as rows for charts, tables and files. Imports no Streamlit."""

from __future__ import annotations

import csv
import io
from typing import Any

import pandas as pd

from planner.charts.bars import Part, Peak
from planner.footprint import Footprint, Phase
from planner.totals.limits import word_of
from planner.trial.ask.footprints import PhaseFigures
from planner.wording.display import Unit, interval

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet read a text as a formula."""


def bar_parts(footprint: Footprint, unit: Unit) -> list[Part]:
    """The phases' bars in the unit: by category, what an engine's cache is given apart."""
    parts = []
    for phase in footprint.phases:
        name, pool = phase_name(phase), phase.pool_bytes
        for category, size_bytes in phase.by_category().items():
            of_engine = pool if category == "engine" else 0
            if size_bytes > of_engine:
                parts.append(Part(name, category, unit.value(size_bytes - of_engine)))
            if of_engine:
                parts.append(Part(name, category, unit.value(pool), chosen=True))
    return parts


def bar_peaks(footprint: Footprint, unit: Unit) -> list[Peak]:
    """What each phase comes to in the unit; ``least`` and ``most`` by measured errors."""
    return [
        Peak(
            phase_name(phase),
            unit.value(phase.device_bytes),
            unit.value(phase.least_bytes),
            unit.value(phase.most_bytes),
            _word(footprint, phase),
            phase.instant,
        )
        for phase in footprint.phases
    ]


def _word(footprint: Footprint, phase: Phase) -> str:
    """Of the rest of a plan, of which something is left out, no phase is called good."""
    whole = not footprint.verdict.incomplete
    return phase_word(phase, footprint.budget_bytes) if whole else footprint.verdict.said


def phase_word(phase: Phase, budget_bytes: int) -> str:
    """The verdict's word for one phase, by what was measured where predictions were too low."""
    return word_of(phase.device_bytes, phase.most_bytes, budget_bytes)


def phase_name(phase: Phase | PhaseFigures) -> str:
    """A phase's name, with whose GPU it happens on unless it is the trainer's."""
    return phase.name if phase.rank == "trainer" else f"{phase.name} ({phase.rank} GPU)"


def phase_table(footprint: Footprint, unit: Unit) -> pd.DataFrame:
    """One row per phase: the four totals, host RAM, seconds, the verdict's word."""
    rows = []
    for phase in footprint.phases:
        sizes = {
            f"{name}, {unit.name}": unit.value(getattr(phase, f"{name.lower()}_bytes"))
            for name in ("Device", "Reserved", "Allocated", "Requested")
        }
        host, error = phase.host_bytes, phase.error
        rows.append(
            {
                "Phase": phase_name(phase),
                "Verdict": _word(footprint, phase),
                "Share of GPU": round(phase.device_bytes / footprint.budget_bytes, 2),
                **sizes,
                f"Host RAM, {unit.name}": None if host is None else unit.value(host),
                "Error": interval(error.low, error.high) if error else interval(None, None),
                "Seconds": phase.seconds,
                "At least": phase.low_seconds,
                "At most": phase.high_seconds,
                "Peak at": phase.instant,
            }
        )
    return pd.DataFrame(rows)


def as_csv(table: pd.DataFrame) -> str:
    """The table as CSV that a spreadsheet cannot mistake for formulas."""
    text = io.StringIO()
    rows: list[Any] = [table.columns, *table.itertuples(index=False)]
    csv.writer(text, lineterminator="\n").writerows([_safe(cell) for cell in row] for row in rows)
    return text.getvalue()


def _safe(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return "" if not isinstance(value, str) and pd.isna(value) else value
